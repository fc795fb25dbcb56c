package node

import "testing"

func TestExpand(t *testing.T) {
	variables := map[string]string{"NAME": "a", "EMPTY": ""}
	for text, want := range map[string]string{
		"":                    "",
		"plain":               "plain",
		"$(NAME)":             "a",
		"--x=$(NAME)-$(NAME)": "--x=a-a",
		"$(EMPTY)":            "",
		"$(UNKNOWN)":          "$(UNKNOWN)",
		"$$(NAME)":            "$(NAME)",
		"$NAME $":             "$NAME $",
		"$(NAME":              "$(NAME",
	} {
		if got := expand(text, variables); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
}

func TestMoves(t *testing.T) {
	all := append(portMoves(8080, 41000), portMoves(80, 42000)...)
	all = append(all, pathMove("/etc/tls", "/r/etc/tls"), pathMove("/etc", "/r/etc"), pathMove("/tmp", "/r/tmp"))
	for text, want := range map[string]string{
		"--bind=:8080":                  "--bind=127.0.0.1:41000",
		":80":                           "127.0.0.1:42000",
		"0.0.0.0:8080,[::]:80":          "127.0.0.1:41000,127.0.0.1:42000",
		"http://localhost:8080/healthz": "http://127.0.0.1:41000/healthz",
		"--bind=127.0.0.1:8080":         "--bind=127.0.0.1:41000",
		"https://example.org:8080":      "https://example.org:8080",
		"10.0.0.1:80":                   "10.0.0.1:80",
		":80800":                        ":80800",
		"--port=8080":                   "--port=8080",
		"--dir=/etc/tls":                "--dir=/r/etc/tls",
		"/etc/tls/tls.crt:/etc/other":   "/r/etc/tls/tls.crt:/r/etc/other",
		"/etcetera":                     "/etcetera",
		"/var/tmp":                      "/var/tmp",
		"--a=/tmp,/tmp":                 "--a=/r/tmp,/r/tmp",
	} {
		if got := all.apply(text); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
}
