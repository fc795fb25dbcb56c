package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A page that tells people to run a target of make that does not exist is worse than none, and so is a variable
// that make does not look at.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, filepath.Join(root, "Makefile"))
	blocks := 0
	for _, page := range pages(t) {
		content := read(t, page)
		for _, script := range scripts(content) {
			blocks += len(makeArguments(script))
		}
		for _, command := range append(scripts(content), spans(content)...) {
			for _, argument := range makeArguments(command) {
				name, _, variable := strings.Cut(argument, "=")
				switch {
				case strings.HasPrefix(argument, "-"):
				case variable && !strings.Contains(makefile, "$("+name+")"):
					t.Errorf("%s sets %s for make, which the Makefile does not read", page, name)
				case !variable && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`:`).MatchString(makefile):
					t.Errorf("%s names `make %s`, which the Makefile does not have", page, name)
				}
			}
		}
	}
	if blocks == 0 {
		t.Error("no block of commands runs make, or none is found")
	}
}

// makeArguments returns targets, variables and flags of every make in commands, without what is quoted.
func makeArguments(commands string) []string {
	commands = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(commands, "")
	var arguments []string
	for _, match := range regexp.MustCompile(`(?m)(?:^|[;&|(])[ \t]*(?:[A-Z_]+=\S*[ \t]+)*make((?:[ \t]+[^\s;&|()#]+)+)`).FindAllStringSubmatch(commands, -1) {
		arguments = append(arguments, strings.Fields(match[1])...)
	}
	return arguments
}

// What a page sets with --set is in the chart: Helm's schema would refuse anything else, when somebody has copied it.
func TestValuesThatAreSet(t *testing.T) {
	document := &yaml.Node{}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "charts", "archelon", "values.yaml"))), document); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages(t) {
		content := read(t, page)
		for _, command := range append(scripts(content), spans(content)...) {
			for _, key := range setKeys(command) {
				found++
				if !hasValue(document.Content[0], key) {
					t.Errorf("%s sets %s, which values.yaml does not have", page, strings.Join(key, "."))
				}
			}
		}
	}
	if found == 0 {
		t.Error("no page sets a value, or none is found")
	}
}

// setKeys returns the keys of every --set in commands for the chart, each as its parts. A command
// for another chart has none.
func setKeys(commands string) [][]string {
	var keys [][]string
	for line := range strings.Lines(strings.ReplaceAll(commands, "\\\n", " ")) {
		if regexp.MustCompile(`helm (install|upgrade|template)`).MatchString(line) && !strings.Contains(line, "charts/archelon") {
			continue
		}
		for _, match := range regexp.MustCompile(`--set(?:-string|-file|-json|-literal)?[ =]+('[^']*'|"[^"]*"|\S+)`).FindAllStringSubmatch(line, -1) {
			// Commas in a list, or behind a backslash, do not end a value.
			list := regexp.MustCompile(`\{[^}]*\}|\\,`).ReplaceAllString(strings.Trim(match[1], `'"`), "")
			for assignment := range strings.SplitSeq(list, ",") {
				key, value, _ := strings.Cut(assignment, "=")
				if value == "null" { // It takes away what may not be in values.yaml any more.
					continue
				}
				keys = append(keys, keyParts(key))
			}
		}
	}
	return keys
}

// keyParts takes a key of --set apart. A dot behind a backslash is part of a name, and an index is left out: what is in
// a list has no key in values.yaml.
func keyParts(key string) []string {
	const dot = "\x00"
	key, _, _ = strings.Cut(strings.ReplaceAll(key, `\.`, dot), "[")
	parts := strings.Split(key, ".")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], dot, ".")
	}
	return parts
}

// hasValue reports whether a map of values.yaml has a key. What has a comment of its own is a value, and may have any
// keys below it if it is a map.
func hasValue(node *yaml.Node, key []string) bool {
	for i := 0; i < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if name.Value != key[0] {
			continue
		}
		isValue := strings.HasPrefix(name.HeadComment, "# -- ")
		if len(key) == 1 {
			return isValue
		}
		return value.Kind == yaml.MappingNode && (isValue || hasValue(value, key[1:]))
	}
	return false
}

// The page for installations says which versions of Helm the tests run.
func TestHelmVersions(t *testing.T) {
	pinned := func(major, module string) string {
		match := regexp.MustCompile(`helm\.sh/helm/v` + major + ` v(\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(root, "hack", module, "go.mod")))
		if match == nil {
			t.Fatalf("hack/%s pins no Helm %s", module, major)
		}
		return match[1]
	}
	want := "The tests run Helm " + pinned("3", "chart") + ", and each night " + pinned("4", "helm4")
	if !strings.Contains(read(t, filepath.Join("operations", "install.md")), want) {
		t.Errorf("install.md does not say %q", want)
	}
}

func TestSetKeys(t *testing.T) {
	for commands, want := range map[string][]string{
		"helm install a charts/archelon --set image.registry=r,image.tag=v1":     {"image.registry", "image.tag"},
		"helm install a charts/archelon \\\n  --set 'namespaces={a,b}' --wait":   {"namespaces"},
		"helm install a charts/archelon --set=tolerations[0].key=a,replicas=1":   {"tolerations", "replicas"},
		`helm install a charts/archelon --set-string 'nodeSelector.a\.b/c=d\,e'`: {"nodeSelector.a/b/c"},
		"helm install a other/chart --set hostname=a\nhelm uninstall a":          nil,
		"--set replicas=3": {"replicas"},
	} {
		var got []string
		for _, key := range setKeys(commands) {
			for i := range key {
				key[i] = strings.ReplaceAll(key[i], ".", "/")
			}
			got = append(got, strings.Join(key, "."))
		}
		if !slices.Equal(got, want) {
			t.Errorf("setKeys(%q) = %q, want %q", commands, got, want)
		}
	}
}

func TestMakeArguments(t *testing.T) {
	for commands, want := range map[string][]string{
		"make demo   # shows imports":                               {"demo"},
		"# make this\nFUZZTIME=1s make -s test lint && make verify": {"-s", "test", "lint", "verify"},
		`make e2e KEEP=dev TESTFLAGS='--focus="a of b" -v'`:         {"e2e", "KEEP=dev", "TESTFLAGS="},
		"cmake x; echo make y":                                      nil,
	} {
		if got := makeArguments(commands); !slices.Equal(got, want) {
			t.Errorf("makeArguments(%q) = %q, want %q", commands, got, want)
		}
	}
}

var fence = regexp.MustCompile("(?ms)^[ \t]*```([a-z]*)\n(.*?)^[ \t]*```")

// scripts returns the fenced blocks of a page that hold commands.
func scripts(content string) []string {
	var blocks []string
	for _, match := range fence.FindAllStringSubmatch(content, -1) {
		if match[1] == "" || slices.Contains([]string{"sh", "bash", "shell", "console"}, match[1]) {
			blocks = append(blocks, match[2])
		}
	}
	return blocks
}

// spans returns what is set as code within the text of a page.
func spans(content string) []string {
	var parts []string
	for _, match := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(fence.ReplaceAllString(content, ""), -1) {
		parts = append(parts, match[1])
	}
	return parts
}
