package harvest

var CookiesFor = cookiesFor
