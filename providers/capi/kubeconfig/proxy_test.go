package kubeconfig

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"
)

func through(proxy string) func(*api.Cluster, *api.AuthInfo) {
	return func(cluster *api.Cluster, _ *api.AuthInfo) { cluster.ProxyURL = proxy }
}

func TestLocalProxiesAreRefused(t *testing.T) {
	const local, number, fine = "local addresses are refused", "hosts that are no addresses are refused", ""
	for proxy, want := range map[string]string{
		"http://127.0.0.1:9440":                    local,
		"http://u:s3cret@127.0.0.1:9440":           local,
		"https://127.8.9.1":                        local,
		"socks5://127.0.0.1:1080":                  local,
		"http://169.254.169.254:80":                local,
		"http://[::1]":                             local,
		"http://[::ffff:127.0.0.1]":                local,
		"http://[::ffff:169.254.169.254]:80":       local,
		"http://0.0.0.0:9440":                      local,
		"http://[::]:9440":                         local,
		"http://[fe80::1]":                         local,
		"http://[fe80::1%25eth0]:80":               local,
		"http://[::1%25lo]":                        local,
		"http://224.0.0.1":                         local,
		"http://[ff02::1]":                         local,
		"http://localhost:9440":                    local,
		"http://LocalHost.:9440":                   local,
		"http://foo.localhost":                     local,
		"http://0x7f.1":                            number,
		"http://2130706433":                        number,
		"http://127.1":                             number,
		"http://0177.0.0.1":                        number,
		"http://127.0.0.1.":                        number,
		"http://proxy.example.com:3128":            fine,
		"http://proxy-1:3128":                      fine,
		"http://10.0.0.1:3128":                     fine,
		"socks5://[2001:db8::1]:1080":              fine,
		"http://localhost.example.com":             fine,
		"http://proxy.tenant-a.svc.cluster.local.": fine,
	} {
		raw := written(t, "https://10.0.0.1:6443", nil, through(proxy))
		t.Run(proxy, func(t *testing.T) {
			config, err := RESTConfig(raw, Allow{})
			if want == fine {
				if err != nil || config.Proxy == nil {
					t.Errorf("got %v", err)
				}
				return
			}
			wantProblem(t, err, "KubeconfigProxyRefused")
			if strings.Contains(err.Error(), "127") || strings.Contains(err.Error(), "proxy.allowLocalURLs") != (want == local) {
				t.Errorf("the message does not say what to do, or what is in the kubeconfig: %v", err)
			}
		})
		t.Run(proxy+" allowed", func(t *testing.T) {
			_, err := RESTConfig(raw, Allow{LocalProxies: true})
			if want == number {
				wantProblem(t, err, "KubeconfigProxyRefused")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// The proxy of the environment is the administrator's, and a server is asked by TLS: both may be local.
func TestOnlyProxiesOfKubeconfigsAreLookedAt(t *testing.T) {
	config, err := RESTConfig(written(t, "https://127.0.0.1:6443", nil), Allow{})
	if err != nil {
		t.Fatal(err)
	}
	if config.Proxy != nil || config.Dial != nil {
		t.Error("a kubeconfig without a proxy-url is not dialled as others are")
	}
}
