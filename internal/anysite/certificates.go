//go:build linux

package anysite

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// certificates issues certificates for addresses from a CA of the test, which the programs trust through
// SSL_CERT_FILE.
type certificates struct {
	file string
	pool *x509.CertPool
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCertificates(file string) (*certificates, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &certificates{file: file, key: key, pool: x509.NewCertPool()}
	c.ca = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Any site"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c.ca, c.ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	c.pool.AppendCertsFromPEM(text)
	return c, os.WriteFile(file, text, 0o644)
}

// of issues a certificate for an address; a bad one has expired.
func (c *certificates) of(ip string, bad bool) (tls.Certificate, error) {
	until := time.Now().Add(100 * time.Hour)
	if bad {
		until = time.Now().Add(-30 * time.Minute)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: ip}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.ParseIP(ip)}, DNSNames: []string{"a.one.localhost", "b.one.localhost", "two.localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, t, c.ca, &c.key.PublicKey, c.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.key}, err
}

// writeCertificate writes a certificate with its key, for nginx.
func writeCertificate(file string, c tls.Certificate) error {
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	return os.WriteFile(file, text, 0o644)
}
