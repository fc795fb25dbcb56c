package hostclaim

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/test/simulation"
)

// A copy is written only over the state that was seen: what came meanwhile is somebody else's, or newer.
func TestCopiesAreOfWhatWasSeen(t *testing.T) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	key := simulation.Key{Kind: schema.GroupKind{Kind: "Secret"}, NamespacedName: types.NamespacedName{Namespace: "a", Name: "s"}}
	secret := func(value string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}, Data: map[string][]byte{"value": []byte(value)}, Type: kind,
		}
	}
	for name, test := range map[string]struct {
		reason    string
		meanwhile func(*simulation.Server)
		copied    *corev1.Secret
		conflicts bool
		// left is what is there then.
		left string
	}{
		"Same":     {"nothing has happened", func(*simulation.Server) {}, secret("new", ""), false, "new"},
		"Changed":  {"somebody has written it", func(s *simulation.Server) { s.Put(secret("theirs", "")) }, secret("new", ""), true, "theirs"},
		"Replaced": {"it is another one", func(s *simulation.Server) { s.Remove(key); s.Put(secret("theirs", "")) }, secret("new", ""), true, "theirs"},
		"OtherType": {
			"a type cannot be changed: it is removed, and its event has it created again", func(*simulation.Server) {}, secret("new", "Opaque"), false, "",
		},
	} {
		server := simulation.NewServer(s)
		server.Put(secret("old", ""))
		c := server.Client(nil)
		seen := &metav1.PartialObjectMetadata{ObjectMeta: server.Get(key).(*corev1.Secret).ObjectMeta} //nolint:forcetypeassert // it was put there
		test.meanwhile(server)
		err := Replace(t.Context(), c, c, "test", seen, test.copied)
		left := ""
		if found, ok := server.Get(key).(*corev1.Secret); ok {
			left = string(found.Data["value"])
		}
		if apierrors.IsConflict(err) != test.conflicts || !test.conflicts && err != nil || left != test.left {
			t.Errorf("%s: %s: got %v and %q", name, test.reason, err, left)
		}
		// What was removed from below is nobody's failure, and a newer one stays.
		if err := reconcile.IgnoreOvertaken(Remove(t.Context(), c, seen)); err != nil {
			t.Errorf("%s: removing it: %v", name, err)
		}
		if _, still := server.Get(key).(*corev1.Secret); still != (test.left != "") {
			t.Errorf("%s: it is there: %v", name, still)
		}
	}
}

func TestOvertaken(t *testing.T) {
	for _, err := range []error{reconcile.Outdated("secrets", "s"), apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "s")} {
		if !reconcile.Overtaken(err) || reconcile.IgnoreOvertaken(err) != nil {
			t.Errorf("%v is no failure", err)
		}
	}
	for _, err := range []error{simulation.ErrOutage, errors.New("boom")} {
		if reconcile.Overtaken(err) || reconcile.IgnoreOvertaken(err) == nil {
			t.Errorf("%v is one", err)
		}
	}
}
