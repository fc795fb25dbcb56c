package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/providers/capi/problem"
)

func TestRESTConfig(t *testing.T) {
	server := newPair(t)
	type change = func(*api.Cluster, *api.AuthInfo)
	cases := map[string]struct {
		reason string
		change change
		want   string
	}{
		"Token":    {reason: "a token in line is the simplest credential", change: func(*api.Cluster, *api.AuthInfo) {}},
		"Path":     {reason: "an API may be served under a path", change: func(c *api.Cluster, _ *api.AuthInfo) { c.Server += "/k8s/clusters/x" }},
		"SystemCA": {reason: "without CA data the system's CAs count", change: func(c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthorityData = nil }},
		"Certificate": {reason: "a client certificate is what CAPI issues", change: func(_ *api.Cluster, u *api.AuthInfo) {
			u.Token, u.ClientCertificateData, u.ClientKeyData = "", server.certPEM, server.keyPEM
		}},
		"Password":   {reason: "a proxy before an API may ask for a password", change: func(_ *api.Cluster, u *api.AuthInfo) { u.Token, u.Username, u.Password = "", "u", "s3cret" }},
		"HTTPProxy":  {reason: "networks have proxies", change: func(c *api.Cluster, _ *api.AuthInfo) { c.ProxyURL = "http://proxy.example.com:3128" }},
		"SOCKSProxy": {reason: "some of them speak SOCKS", change: func(c *api.Cluster, _ *api.AuthInfo) { c.ProxyURL = "socks5://10.0.0.1:1080" }},

		"Exec": {reason: "it would run in the manager", want: "KubeconfigExecRefused", change: func(_ *api.Cluster, u *api.AuthInfo) {
			u.Exec = &api.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
		}},
		"AuthProvider": {reason: "it was removed from Kubernetes", want: "KubeconfigAuthProviderRefused", change: func(_ *api.Cluster, u *api.AuthInfo) { u.AuthProvider = &api.AuthProviderConfig{Name: "gcp"} }},
		"CAFile":       {reason: "it would be a file of the manager", want: "KubeconfigFilePathRefused", change: func(c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthority = "/etc/passwd" }},
		"CAFileToo": {reason: "data beside it does not make it harmless", want: "KubeconfigFilePathRefused", change: func(c *api.Cluster, _ *api.AuthInfo) {
			c.CertificateAuthority = "ca.crt"
			c.CertificateAuthorityData = server.certPEM
		}},
		"CertFile": {reason: "it would be a file of the manager", want: "KubeconfigFilePathRefused", change: func(_ *api.Cluster, u *api.AuthInfo) { u.ClientCertificate = "tls.crt" }},
		"KeyFile":  {reason: "it would be a file of the manager", want: "KubeconfigFilePathRefused", change: func(_ *api.Cluster, u *api.AuthInfo) { u.ClientKey = "tls.key" }},
		"TokenFile": {reason: "it would send the manager's own token", want: "KubeconfigFilePathRefused", change: func(_ *api.Cluster, u *api.AuthInfo) {
			u.TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		}},
		"Impersonate":      {reason: "the user is to be the one it says", want: "KubeconfigImpersonationRefused", change: func(_ *api.Cluster, u *api.AuthInfo) { u.Impersonate = "admin" }},
		"ImpersonateUID":   {reason: "the user is to be the one it says", want: "KubeconfigImpersonationRefused", change: func(_ *api.Cluster, u *api.AuthInfo) { u.ImpersonateUID = "1" }},
		"ImpersonateGroup": {reason: "the user is to be the one it says", want: "KubeconfigImpersonationRefused", change: func(_ *api.Cluster, u *api.AuthInfo) { u.ImpersonateGroups = []string{"system:masters"} }},
		"ImpersonateExtra": {reason: "the user is to be the one it says", want: "KubeconfigImpersonationRefused", change: func(_ *api.Cluster, u *api.AuthInfo) { u.ImpersonateUserExtra = map[string][]string{"a": {"b"}} }},
		"PlainHTTP":        {reason: "credentials must not cross the network in the clear", want: "KubeconfigInsecureRefused", change: func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "http://127.0.0.1:8080" }},
		"SkipVerify": {reason: "anyone could answer", want: "KubeconfigInsecureRefused", change: func(c *api.Cluster, _ *api.AuthInfo) {
			c.InsecureSkipTLSVerify = true
			c.CertificateAuthorityData = nil
		}},
		"NoScheme":  {reason: "client-go would guess http", want: "KubeconfigInvalid", change: func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "127.0.0.1:6443" }},
		"NoServer":  {reason: "client-go would guess localhost", want: "KubeconfigInvalid", change: func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "" }},
		"UserInfo":  {reason: "a password in a URL ends up in logs", want: "KubeconfigInvalid", change: func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://u:s3cret@127.0.0.1:6443" }},
		"BrokenURL": {reason: "what cannot be parsed is not quoted", want: "KubeconfigInvalid", change: func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://s3cret%zz" }},
		"NotUTF8":   {reason: "it is no host, and no text either", want: "KubeconfigInvalid", change: func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://%ff.example" }},
		"NotASCII":  {reason: "DNS writes it otherwise", want: "KubeconfigInvalid", change: func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://bücher.example" }},
		"BrokenCA":  {reason: "no PEM is no CA", want: "KubeconfigInvalid", change: func(c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthorityData = []byte("s3cret") }},
		"BrokenKey": {reason: "a key belongs to its certificate", want: "KubeconfigInvalid", change: func(_ *api.Cluster, u *api.AuthInfo) {
			u.ClientCertificateData, u.ClientKeyData = server.certPEM, []byte("s3cret")
		}},
		"KeyAlone":      {reason: "a key needs its certificate", want: "KubeconfigInvalid", change: func(_ *api.Cluster, u *api.AuthInfo) { u.ClientKeyData = server.keyPEM }},
		"TokenLines":    {reason: "a header has one line", want: "KubeconfigInvalid", change: func(_ *api.Cluster, u *api.AuthInfo) { u.Token = "s3cret\nX: y" }},
		"FTPProxy":      {reason: "net/http would not know what to do", want: "KubeconfigProxyRefused", change: func(c *api.Cluster, _ *api.AuthInfo) { c.ProxyURL = "ftp://u:s3cret@proxy" }},
		"BrokenProxy":   {reason: "what cannot be parsed is not quoted", want: "KubeconfigProxyRefused", change: func(c *api.Cluster, _ *api.AuthInfo) { c.ProxyURL = "http://s3cret%zz" }},
		"NoCredentials": {reason: "an anonymous user may do nothing", want: "KubeconfigCredentialsMissing", change: func(_ *api.Cluster, u *api.AuthInfo) { u.Token = "" }},
		"UserNameOnly":  {reason: "a name proves nothing", want: "KubeconfigCredentialsMissing", change: func(_ *api.Cluster, u *api.AuthInfo) { u.Token, u.Username = "", "u" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config, err := RESTConfig(written(t, "https://127.0.0.1:6443", server.certPEM, tc.change), Allow{})
			if tc.want == "" {
				if err != nil {
					t.Fatalf("%s: %v", tc.reason, err)
				}
				if !strings.HasPrefix(config.Host, "https://127.0.0.1:6443") {
					t.Errorf("%s: host %s", tc.reason, config.Host)
				}
				return
			}
			wantProblem(t, err, tc.want)
			if t.Failed() {
				t.Log(tc.reason)
			}
		})
	}
}

func TestRESTConfigTakesNothingElse(t *testing.T) {
	raw := written(t, "https://127.0.0.1:6443", nil)
	raw = bytes.Replace(raw, []byte("users:\n"), []byte("users:\n- name: other\n  user:\n    exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}\n"), 1)
	config, err := RESTConfig(raw, Allow{})
	if err != nil {
		t.Fatalf("users that are not used do no harm: %v", err)
	}
	if config.BearerToken != secretToken || config.ExecProvider != nil {
		t.Error("took over another user")
	}
}

func TestRESTConfigOfBrokenFiles(t *testing.T) {
	valid := string(written(t, "https://127.0.0.1:6443", nil))
	asJSON, err := yaml.YAMLToJSON([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RESTConfig(asJSON, Allow{}); err != nil {
		t.Errorf("JSON is YAML: %v", err)
	}
	var bomb strings.Builder
	bomb.WriteString("apiVersion: v1\nkind: Config\na0: &a0 " + strings.Repeat("x", 1000) + "\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	cases := map[string]struct{ raw, says string }{
		"Empty":          {raw: "", says: "not YAML"},
		"Text":           {raw: "s3cret", says: "not a kubeconfig"},
		"List":           {raw: "[s3cret]", says: "not a kubeconfig"},
		"OtherKind":      {raw: "apiVersion: v1\nkind: Secret\n", says: "not a kubeconfig"},
		"Broken":         {raw: "a: b: s3cret", says: "not YAML"},
		"Tabs":           {raw: "kind:\n\ts3cret", says: "not YAML"},
		"TwoDocuments":   {raw: valid + "---\nkind: Config\n", says: "more than one YAML document"},
		"Bomb":           {raw: bomb.String(), says: "anchors"},
		"Deep":           {raw: strings.Repeat("[", 20_000), says: "not YAML"},
		"Nested":         {raw: strings.Repeat("[", 100) + strings.Repeat("]", 100), says: "more than 32 levels"},
		"Huge":           {raw: valid + "# " + strings.Repeat("x", MaxBytes), says: "more than 64 KiB"},
		"NoContext":      {raw: strings.Replace(valid, "current-context: admin@workload", "current-context: other", 1), says: "no current context"},
		"NoCurrent":      {raw: strings.Replace(valid, "current-context: admin@workload", "current-context: \"\"", 1), says: "no current context"},
		"NoCluster":      {raw: strings.Replace(valid, "cluster: workload", "cluster: other", 1), says: "lacks the cluster"},
		"NoUser":         {raw: strings.Replace(valid, "user: admin", "user: other", 1), says: "lacks the user"},
		"BadBase64":      {raw: strings.Replace(valid, "server:", "certificate-authority-data: '%s3cret'\n    server:", 1), says: "not a kubeconfig"},
		"OnlyAPIVersion": {raw: "apiVersion: v1\nkind: Config\n", says: "no current context"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := RESTConfig([]byte(tc.raw), Allow{})
			wantProblem(t, err, "KubeconfigInvalid")
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("want %q in: %v", tc.says, err)
			}
		})
	}
}

func FuzzRESTConfig(f *testing.F) {
	f.Add(written(f, "https://127.0.0.1:6443", nil))
	for _, user := range []string{
		"token: x", "tokenFile: x", "exec: {command: x}", "auth-provider: {name: x}", "as: x", "client-certificate: x",
		"client-certificate-data: eA==", "username: x", "as-user-extra: {a: [b]}", "token: &a x", "extensions: [{name: x, extension: {a: b}}]",
	} {
		f.Add([]byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: c}}]\n" +
			"clusters: [{name: c, cluster: {server: 'https://x'}}]\nusers: [{name: c, user: {" + user + "}}]\n"))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := RESTConfig(raw, Allow{})
		if err != nil {
			var found *problem.Problem
			if config != nil || !errors.As(err, &found) || found.Reason == "" || found.Message == "" {
				t.Errorf("a refusal that is no Problem: %v", err)
			}
			return
		}
		if !strings.HasPrefix(strings.ToLower(config.Host), "https://") || config.Insecure ||
			config.ExecProvider != nil || config.AuthProvider != nil ||
			config.BearerTokenFile != "" || config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" ||
			config.Impersonate.UserName != "" || config.Impersonate.UID != "" ||
			len(config.Impersonate.Groups) > 0 || len(config.Impersonate.Extra) > 0 {
			t.Error("admitted what is not safe")
		}
	})
}
