package ping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/parleyweb/parley/protocol"
)

// A content is the content of a topic at one moment.
type content struct {
	at          protocol.Cursor // the content is of this position in the journal, or later
	contentType string
	body        []byte
	digest      protocol.Digest
}

// topics are what can be subscribed to. Their methods may be called by many goroutines at once.
type topics struct {
	o *HubOptions

	// reading is a semaphore of one, held while a topic is read for a verification;
	// it guards standing, the results of such reads without bodies.
	reading  chan struct{}
	standing map[string]content

	mu      sync.Mutex
	trouble map[string]string // by topic: why its content cannot be delivered
}

func newTopics(o *HubOptions) topics {
	return topics{o: o, reading: make(chan struct{}, 1), standing: make(map[string]content), trouble: make(map[string]string)}
}

func (t *topics) troubleOf(topic string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trouble[topic]
}

// setTrouble sets why the content of a topic cannot be delivered, and reports whether that is news.
func (t *topics) setTrouble(topic string, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.trouble, topic)
		return false
	}
	was := t.trouble[topic]
	t.trouble[topic] = err.Error()
	return was != err.Error()
}

// read reads the content of a topic, which is that of the position at or later.
func (t *topics) read(ctx context.Context, topic string, at protocol.Cursor) (content, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	mediaType, b, err := t.o.Topic(ctx, topic)
	switch {
	case err != nil:
		return content{}, fmt.Errorf("read topic: %w", err)
	case len(b) > maxContent:
		return content{}, tooLong(int64(len(b)))
	}
	return content{at: at, contentType: mediaType, body: b, digest: protocol.Sum(b)}, nil
}

func tooLong(n int64) error {
	return fmt.Errorf("topic has %d bytes, more than %d: offer a shorter topic, such as a feed", n, maxContent)
}

// ReadTopic reads a regular file as a [Hub]'s Topic must: it refuses a file of
// more than maxContent bytes without reading it.
func ReadTopic(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	case st.Size() > maxContent:
		return nil, tooLong(st.Size())
	}
	b := make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil { // the file is replaced as a whole, and does not shrink
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return b, nil
}

// stands returns the content of a topic as of the position at or later, without
// its body. It reads a topic once per position, and one topic at a time, since
// strangers decide how often it is called.
func (t *topics) stands(ctx context.Context, topic string, at protocol.Cursor) (content, error) {
	select {
	case t.reading <- struct{}{}:
		defer func() { <-t.reading }()
	case <-ctx.Done():
		return content{}, ctx.Err()
	}
	c, ok := t.standing[topic]
	if ok && c.at == at && !at.IsZero() {
		return c, nil
	}
	c, err := t.read(ctx, topic, at)
	if c.body = nil; err == nil {
		t.standing[topic] = c
	}
	return c, err
}
