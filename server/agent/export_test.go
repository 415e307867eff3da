package agent

// What tests name beside what everybody does.

const MaxPage = maxPage
