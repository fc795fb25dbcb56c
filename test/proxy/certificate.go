package proxy

import (
	"encoding/pem"
	"net/http/httptest"
)

// certificate returns the certificate of a test server in PEM.
func certificate(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
