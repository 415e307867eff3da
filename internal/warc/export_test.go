package warc

// SURT returns the key of a URL in a CDXJ index.
func SURT(url string) string { return string(appendSURT(nil, url)) }
