module github.com/parleyweb/parley/internal/endtoend/browser

go 1.25.0
