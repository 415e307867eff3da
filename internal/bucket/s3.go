package bucket

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// An s3 is a Bucket in an S3-compatible store.
type s3 struct {
	client       *minio.Client
	name, prefix string
}

// openS3 returns a bucket by its URL. The credentials are those of AWS's own tools: from the environment, a file in the home
// directory, or the machine's role.
func openS3(u *url.URL) (*s3, error) {
	q := u.Query()
	endpoint, err := url.Parse(cmp.Or(q.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com"))
	if err != nil || endpoint.Host == "" || endpoint.Path != "" && endpoint.Path != "/" || endpoint.Scheme != "https" && endpoint.Scheme != "http" {
		return nil, fmt.Errorf("%s: the endpoint must be https://HOST or http://HOST", u)
	}
	for key := range q {
		if key != "endpoint" && key != "region" {
			return nil, fmt.Errorf("%s: unknown parameter %s: want endpoint or region", u, key)
		}
	}
	if u.Host == "" {
		return nil, fmt.Errorf("%s: want s3://BUCKET/PREFIX", u)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Secure: endpoint.Scheme == "https",
		Region: cmp.Or(q.Get("region"), os.Getenv("AWS_REGION")),
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}}}),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u, err)
	}
	return &s3{client, u.Host, strings.Trim(u.Path, "/")}, nil
}

func (b *s3) key(name string) string { return path.Join(b.prefix, name) }

// failed returns an error that names the object.
func (b *s3) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if r := minio.ToErrorResponse(err); r.Code == minio.NoSuchKey || r.StatusCode == http.StatusNotFound && r.Code != minio.NoSuchBucket {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("%s s3://%s/%s: %w", op, b.name, b.key(name), err)
}

func (b *s3) Put(ctx context.Context, name string, f *os.File) error {
	if stored, err := has(ctx, b, name, f); stored || err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = b.client.PutObject(ctx, b.name, b.key(name), io.NewSectionReader(f, 0, st.Size()), st.Size(), minio.PutObjectOptions{ContentType: "application/octet-stream"})
	return b.failed("store", name, err)
}

func (b *s3) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if err := o.SetRange(offset, offset+length-1); err != nil {
		return nil, err
	}
	core := minio.Core{Client: b.client}
	body, _, _, err := core.GetObject(ctx, b.name, b.key(name), o)
	if err != nil {
		return nil, b.failed("read", name, err)
	}
	return body, nil
}

func (b *s3) Size(ctx context.Context, name string) (int64, error) {
	o, err := b.client.StatObject(ctx, b.name, b.key(name), minio.StatObjectOptions{})
	return o.Size, b.failed("look up", name, err)
}
