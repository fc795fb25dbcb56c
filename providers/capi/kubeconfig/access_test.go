package kubeconfig

import (
	"fmt"
	"testing"
)

func TestAccessOf(t *testing.T) {
	const text = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://c:6443"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: in, context: {cluster: c, user: u, namespace: user1}}
- {name: beside, context: {cluster: c, user: u}, namespace: user2}
- {name: both, context: {cluster: c, user: u, namespace: user1}, namespace: user2}
- {name: none, context: {cluster: c, user: u}}
- {name: wrong, context: {cluster: c, user: u, namespace: ../a}}
- {name: elsewhere, context: {cluster: x, user: u, namespace: user1}}
current-context: in
`
	for name, tc := range map[string]struct{ context, want string }{
		"the current one":             {"", "user1 false"},
		"one by its name":             {"in", "user1 false"},
		"as the proposal writes it":   {"beside", "user2 true"},
		"what others read counts":     {"both", "user1 false"},
		"no namespace is not default": {"none", " false"},
		"a name that cannot be one":   {"wrong", "KubeconfigInvalid"},
		"a context that is not there": {"gone", "KubeconfigInvalid"},
		"a cluster that is not there": {"elsewhere", "KubeconfigInvalid"},
	} {
		access, err := AccessOf([]byte(text), tc.context, Allow{})
		got := fmt.Sprint(access.Namespace, " ", access.Misplaced)
		if err != nil {
			wantProblem(t, err, "KubeconfigInvalid")
			got = "KubeconfigInvalid"
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
