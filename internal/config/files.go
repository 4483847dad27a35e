package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// Load reads the files of the section. It returns nil where TLS is off.
func (t ClientTLS) Load() (*tls.Config, error) {
	if !t.On() {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	var err error
	if t.CA != "" {
		if c.RootCAs, err = loadPool("kafka.tls.ca", t.CA); err != nil {
			return nil, err
		}
	}
	if t.Cert != "" {
		cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("kafka.tls.cert and kafka.tls.key: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// Load reads the files of the section. It returns nil where TLS is off.
func (t ServerTLS) Load() (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if t.ClientCA != "" {
		if c.ClientCAs, err = loadPool("tls.client-ca", t.ClientCA); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func loadPool(setting, path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s holds no PEM certificate", setting, path)
	}
	return pool, nil
}

// Secret returns the password, from the file where one is named.
func (s SASL) Secret() (string, error) {
	if s.PasswordFile == "" {
		return s.Password, nil
	}
	data, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("kafka.sasl.password-file: %w", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}
