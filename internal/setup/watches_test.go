package setup

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/shard"
)

// An audit log does not tell who reads what a watch receives. That column of the page on caches is compared with what
// the controllers of a central instance say that they receive.
func TestThePageOnCachesNamesReaders(t *testing.T) {
	opts := &options.Options{Import: true, TurtlesNamespaces: []string{"turtles"}, Identity: options.Identity{SecretNamespaces: []string{"secrets"}}}
	opts.Credentials.Namespace = "identities"
	declared := []string{
		// It is left to the import to say in which namespaces these are.
		"agentmanifest reads clusterregistrationtokens.management.cattle.io, whole, in Rancher",
	}
	packages := map[string]bool{}
	for _, c := range (&parts{opts: opts}).controllers() {
		packages[c.Package] = !c.Isolated
		if c.Isolated {
			continue
		}
		for _, watch := range c.Watches(shard.Scope{}) {
			mapping, err := mappingOf(c, watch.Object)
			if err != nil {
				t.Fatal(err)
			}
			received, cluster := "whole", "management"
			if _, metadata := watch.Object.(*metav1.PartialObjectMetadata); metadata {
				received = "metadata"
			}
			if watch.Rancher {
				cluster = "Rancher"
			}
			resource := mapping.Resource.GroupResource().String()
			declared = append(declared, c.Package+" reads "+resource+", "+received+", in "+cluster)
		}
	}
	if diff := cmp.Diff(sorted(declared), sorted(documentedReaders(t, packages))); diff != "" {
		t.Errorf("docs/development/caches.md: -code +page:\n%s", diff)
	}
}

// documentedReaders are those of the page that are among the packages of controllers.
func documentedReaders(t *testing.T, packages map[string]bool) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "development", "caches.md"))
	if err != nil {
		t.Fatal(err)
	}
	var readers []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 6 {
			continue
		}
		for _, reader := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[4], -1) {
			if packages[reader[1]] {
				readers = append(readers, reader[1]+" reads "+strings.Trim(cells[1], "`")+", "+cells[3]+", in "+cells[0])
			}
		}
	}
	return readers
}

func sorted(lines []string) []string {
	slices.Sort(lines)
	return slices.Compact(lines)
}
