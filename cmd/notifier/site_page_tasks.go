package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// errNotSure is the answer to a button whose box was not checked.
var errNotSure = errors.New("nothing was done: check the box before the button, to confirm that this is intended")

// do does what a button of the page says, by the same functions as the subcommands.
func (s *sitePage) do(w http.ResponseWriter, r *http.Request) {
	text, err := s.task(r.Context(), r.PathValue("task"), r)
	if err != nil {
		admin.Reply(w, r, http.StatusConflict, "Not done", err.Error())
		return
	}
	admin.Reply(w, r, http.StatusOK, "Done", text)
}

// task does a task, and returns its result for people.
func (s *sitePage) task(ctx context.Context, task string, r *http.Request) (string, error) {
	sure, parameters := r.PostFormValue("sure") != "", url.Values{}
	switch task {
	case "look", "self-check", "recheck":
	case "purge":
		parameters.Set("url", r.PostFormValue("url"))
	case "accept-deletions":
		if sure { // pages that have vanished since the last scan would be announced, too
			if _, err := s.holder.Do(ctx, "look", parameters); err != nil {
				return "", err
			}
		}
		if err := confirmed(sure, r, s.publisher.Status().Held); err != nil {
			return "", err
		}
	case "accept-refusals":
		refused := 0
		if s.forms.Evidence != nil {
			refused = s.forms.Evidence.Status().Suspect
		}
		if err := confirmed(sure, r, refused); err != nil {
			return "", err
		}
		task = "recheck"
		parameters.Set("accept-refusals", "")
	case "robots-now":
		if !sure {
			return "", errNotSure
		}
		if _, err := s.holder.Do(ctx, "look", parameters); err != nil { // as for deletions
			return "", err
		}
		if now := robotsOf(s.rules).Robots; now != r.PostFormValue("seen") {
			return "", errors.New("nothing was done: robots.txt is not in the state that the page showed: look again")
		}
		if _, err := s.holder.Do(ctx, task, parameters); err != nil {
			return "", err
		}
		task = "look"
	default:
		return "", fmt.Errorf("%.80q is no task of this page", task)
	}
	result, err := s.holder.Do(ctx, task, parameters)
	if err != nil {
		return "", err
	}
	return inWords(result), nil
}

// confirmed returns why a task must not be done: the person has not confirmed it, or it concerns more pages now than the person has seen.
func confirmed(sure bool, r *http.Request, now int) error {
	if !sure {
		return errNotSure
	}
	if seen, err := strconv.Atoi(r.PostFormValue("seen")); err != nil || now > seen {
		return fmt.Errorf("nothing was done: it is about %d pages now, and the page showed %d: look again", now, seen)
	}
	return nil
}

// inWords says what the holder has done.
func inWords(result any) string {
	switch x := result.(type) {
	case inventory.Report:
		return "The site was scanned: " + x.String() + "."
	case server.Checked:
		text := []string{x.String() + "."}
		for _, f := range x.Findings {
			text = append(text, f.String())
		}
		return strings.Join(text, " ")
	case evidence.Status:
		return fmt.Sprintf("The notifier checks %d pages again; so far %d were public, and %d refused.", x.Pages+x.Refused, x.Public, x.Refused)
	case forms.Purged:
		return x.String()
	}
	return "It was done."
}
