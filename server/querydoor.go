package server

import "net/http"

func (n *Notifier) serveQuery(w http.ResponseWriter, r *http.Request) *problem {
	return plainProblem(http.StatusNotImplemented, "not yet")
}
