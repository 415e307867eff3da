package agent

// Names that only tests use.

const MaxPage = maxPage
