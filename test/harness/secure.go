package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Certificate is a key pair for 127.0.0.1 and localhost, signed by an authority of its own, as PEM files.
type Certificate struct {
	CA   string // certificate of the authority
	Cert string
	Key  string // PKCS #8
}

// NewCertificate makes a certificate in a temporary folder of the test.
func NewCertificate(t testing.TB) Certificate {
	t.Helper()
	c, err := certificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func certificate(dir string) (Certificate, error) {
	c := Certificate{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return c, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return c, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, err
	}
	for path, block := range map[string]*pem.Block{
		c.CA:   {Type: "CERTIFICATE", Bytes: caDER},
		c.Cert: {Type: "CERTIFICATE", Bytes: der},
		c.Key:  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return c, err
		}
	}
	return c, nil
}

// secureFiles writes DIR/secure as kafka-cluster wants it.
func secureFiles(dir, users string) error {
	dir = filepath.Join(dir, "secure")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c, err := certificate(dir)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(c.Key)
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(c.Cert)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "broker.pem"), append(key, cert...), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "users"), []byte(strings.ReplaceAll(users, " ", "\n")+"\n"), 0o600)
}
