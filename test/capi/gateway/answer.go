package gateway

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter

	code int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController flush and hijack.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func statusOf(known apierrors.APIStatus) *metav1.Status {
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}

func answer(w http.ResponseWriter, code int, content *metav1.Status) {
	raw, err := json.Marshal(content)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answerRaw(w, code, raw)
}

func answerRaw(w http.ResponseWriter, code int, raw []byte) {
	w.Header().Set(contentType, contentJSON)
	w.WriteHeader(code)
	_, _ = w.Write(raw) // a client that has gone needs no answer
}
