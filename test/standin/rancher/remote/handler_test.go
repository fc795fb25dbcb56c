package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// unreachable is a stand-in that nothing may reach: each of its methods panics.
type unreachable struct{ rancher.Control }

func TestHandlerRefuses(t *testing.T) {
	const secret = "very-secret"
	handler := Handler(unreachable{}, nil)
	for name, tc := range map[string]struct {
		reason, method, path, body string
		want                       int
	}{
		"Unknown":       {"There is no such call.", http.MethodPost, "/control/delete-everything", "{}", http.StatusNotFound},
		"Root":          {"There is nothing else.", http.MethodGet, "/", "", http.StatusNotFound},
		"Method":        {"A call changes something, so it is a POST.", http.MethodGet, "/control/down", "", http.StatusMethodNotAllowed},
		"Empty":         {"A call has a body.", http.MethodPost, "/control/down", "", http.StatusBadRequest},
		"List":          {"A call is an object.", http.MethodPost, "/control/rotate-ca", "[]", http.StatusBadRequest},
		"TwoObjects":    {"A call is one object.", http.MethodPost, "/control/rotate-ca", "{}{}", http.StatusBadRequest},
		"UnknownField":  {"A misspelt field would go unnoticed.", http.MethodPost, "/control/hold-tokens", `{"hald":true}`, http.StatusBadRequest},
		"Type":          {"Types are fixed.", http.MethodPost, "/control/hold-tokens", `{"hold":"` + secret + `"}`, http.StatusBadRequest},
		"Large":         {"A body is bounded.", http.MethodPost, "/control/hold-tokens", `{"hold":` + strings.Repeat(" ", 2<<20) + `true}`, http.StatusBadRequest},
		"NoWorkload":    {"A workload cluster has a name.", http.MethodPost, "/control/add-workload", `{"access":{"host":"https://x"}}`, http.StatusBadRequest},
		"NoHost":        {"A workload cluster has a host.", http.MethodPost, "/control/add-workload", `{"name":"x","access":{"token":"` + secret + `"}}`, http.StatusBadRequest},
		"Base64":        {"Certificates are base64.", http.MethodPost, "/control/add-workload", `{"name":"x","access":{"host":"https://x","key":"` + secret + `!"}}`, http.StatusBadRequest},
		"NoLight":       {"There need be no light clusters.", http.MethodPost, "/control/add-light", `{"name":"x"}`, http.StatusBadRequest},
		"Fault":         {"Faults are known.", http.MethodPost, "/control/set-fault", `{"fault":{"Kind":"nonsense"}}`, http.StatusBadRequest},
		"FaultStatus":   {"The server cannot send such a status.", http.MethodPost, "/control/set-fault", `{"fault":{"Kind":"status","Status":99}}`, http.StatusBadRequest},
		"FaultNegative": {"Numbers count something.", http.MethodPost, "/control/set-fault", `{"fault":{"Kind":"large","Bytes":-1}}`, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, strings.NewReader(tc.body)))
			body, err := io.ReadAll(recorder.Body)
			if err != nil {
				t.Fatal(err)
			}
			if recorder.Code != tc.want {
				t.Errorf("%s\n%s %s: want status %d, got %d: %s", tc.reason, tc.method, tc.path, tc.want, recorder.Code, body)
			}
			if strings.Contains(string(body), secret) {
				t.Errorf("No answer repeats what was sent: %s", body)
			}
		})
	}
}
