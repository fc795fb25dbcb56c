package instance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/shard"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func mustScope(t *testing.T, text string) shard.Scope {
	t.Helper()
	scope, err := shard.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// parse reads an instance: "name age scope works", and "dead", "filter=x" or "selector=x" after that. The age is in
// seconds; the oldest is the first.
func parse(t *testing.T, text string) Registered {
	t.Helper()
	words := strings.Fields(text)
	age, err := time.ParseDuration(words[1] + "s")
	if err != nil {
		t.Fatal(err)
	}
	r := Registered{
		ID: ID{Namespace: "system", Name: words[0]}, Since: begin.Add(-age), Alive: true,
		Claim: Claim{Scope: mustScope(t, words[2])}, Works: mustScope(t, words[3]),
	}
	for _, word := range words[4:] {
		if word == "dead" {
			r.Alive, r.Works = false, shard.None()
		}
		if filter, ok := strings.CutPrefix(word, "filter="); ok {
			r.WatchFilter = filter
		}
		if selector, ok := strings.CutPrefix(word, "selector="); ok {
			if r.Selector, err = labels.Parse(selector); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

func TestDivide(t *testing.T) {
	for name, tc := range map[string]struct {
		self   string
		others []string
		scope  string
		// says is what the instance says of others, empty for nothing.
		says string
	}{
		"Alone":                             {self: "a 1 * *", scope: "*"},
		"BesideItself":                      {self: "a 1 * *", others: []string{"a 1 * *"}, scope: "*"},
		"NamedBeatsAll":                     {self: "a 9 * *", others: []string{"b 1 +x +x"}, scope: "-x", says: "Instance system/b has namespaces x"},
		"NamedBeatsExcluding":               {self: "a 9 -y *", others: []string{"b 1 +x,y +x"}, scope: "-x,y"},
		"ExcludingBeatsAll":                 {self: "a 9 * *", others: []string{"b 1 -x -x"}, scope: "+x"},
		"OlderOfTwoThatNameIt":              {self: "a 9 +x,y +", others: []string{"b 1 +y,z +z"}, scope: "+x,y"},
		"YoungerOfTwoThatNameIt":            {self: "a 1 +x,y +", others: []string{"b 9 +y,z +y,z"}, scope: "+x"},
		"YoungerOfTwoWithoutFlags":          {self: "a 1 * +", others: []string{"b 9 * *"}, scope: "+", says: "Instance system/b has all namespaces"},
		"OlderOfTwoWithoutFlags":            {self: "a 9 * *", others: []string{"b 1 * +"}, scope: "*"},
		"OfTheSameAgeByName":                {self: "a 5 * *", others: []string{"b 5 * +"}, scope: "*"},
		"OfTheSameAgeByNameTheOther":        {self: "b 5 * *", others: []string{"a 5 * +"}, scope: "+"},
		"YoungerOfTwoThatExclude":           {self: "a 1 -x +", others: []string{"b 9 -y,x -x,y"}, scope: "+y"},
		"NamedByOneThatIsDead":              {self: "a 9 * *", others: []string{"b 1 +x + dead"}, scope: "-x", says: "does not run. Start it, or delete its Lease system/b-leader-election"},
		"AllOfOneThatIsDead":                {self: "a 1 * *", others: []string{"b 9 * + dead"}, scope: "*"},
		"NobodyHasLeftYet":                  {self: "a 9 +x +", others: []string{"b 1 * *"}, scope: "+", says: "Waiting until instance system/b leaves namespaces x"},
		"LeftInPart":                        {self: "a 9 +x,y +", others: []string{"b 1 * -x"}, scope: "+x"},
		"HasLeft":                           {self: "a 9 +x,y +", others: []string{"b 1 * -x,y"}, scope: "+x,y"},
		"DiedBeforeItLeft":                  {self: "a 9 +x +", others: []string{"b 1 * * dead"}, scope: "+x"},
		"OtherFilters":                      {self: "a 1 * * filter=f", others: []string{"b 9 * * filter=g"}, scope: "*"},
		"TheSameFilter":                     {self: "a 1 * * filter=f", others: []string{"b 9 * * filter=f"}, scope: "+"},
		"AFilterBesideNone":                 {self: "a 1 * * filter=f", others: []string{"b 9 * *"}, scope: "+"},
		"OtherSelectors":                    {self: "a 1 * * selector=x", others: []string{"b 9 * * selector=y"}, scope: "*"},
		"TheSameSelector":                   {self: "a 1 * * selector=x", others: []string{"b 9 * * selector=x"}, scope: "+"},
		"ASelectorBesideNone":               {self: "a 1 * * selector=x", others: []string{"b 9 -y +"}, scope: "*"},
		"NoneBesideASelector":               {self: "a 9 * *", others: []string{"b 1 * * selector=x"}, scope: "+", says: "Instance system/b has all namespaces"},
		"NamedBesideASelector":              {self: "a 9 * * selector=x", others: []string{"b 1 +x +x"}, scope: "-x"},
		"ThreeOfDocument000":                {self: "last 9 * *", others: []string{"one 5 +ns1-1,ns1-2 +ns1-1,ns1-2", "two 4 +ns2-1,ns2-2 +"}, scope: "-ns1-1,ns1-2,ns2-1,ns2-2"},
		"AListOfExclusionsThatIsOutOfDate":  {self: "last 9 -x *", others: []string{"one 5 +x,y +x"}, scope: "-x,y"},
		"WhatIsExcludedComesBackToNoOne":    {self: "a 9 -x -x", others: []string{"b 1 -y,x +"}, scope: "-x"},
		"ClaimsOfOneThatHasLostThemItself":  {self: "c 1 +x +", others: []string{"a 9 +x +x", "b 5 * -x"}, scope: "+"},
		"NothingOfTheLastResortIsWaitedFor": {self: "a 1 +x +", others: []string{"b 9 -x -x"}, scope: "+x"},
	} {
		t.Run(name, func(t *testing.T) {
			var others []Registered
			for _, text := range tc.others {
				others = append(others, parse(t, text))
			}
			share := Divide(parse(t, tc.self), others)
			if got := share.Scope.Encode(); got != tc.scope {
				t.Errorf("got %s, want %s", got, tc.scope)
			}
			if said := describe(share); !strings.Contains(said, tc.says) {
				t.Errorf("said %q, want %q", said, tc.says)
			}
		})
	}
}

func TestUnowned(t *testing.T) {
	for want, texts := range map[int][]string{
		0: {"a 1 * *", "b 1 +x +x", "c 2 * + dead"},
		2: {"a 1 * *", "b 1 +x,y,z + dead", "c 1 +z,w +z,w"},
	} {
		var all []Registered
		for _, text := range texts {
			all = append(all, parse(t, text))
		}
		if got := Unowned(all); got != want {
			t.Errorf("%v: got %d, want %d", texts, got, want)
		}
	}
}

// Whatever instances claim: each namespace belongs to at most one of those that may meet there, to one at least if
// somebody who is alive claims it and nobody who is dead names it, and where an instance may work nobody else does.
func TestDivideGivesANamespaceToOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"p", "q", "r", "s", "elsewhere"}
	scopes := []string{"*", "+p", "+q,r", "+p,q,r,s", "-p", "-q,r", "-p,q,r,s"}
	for range 20_000 {
		var instances []Registered
		for i := range 1 + random.IntN(5) {
			r := Registered{
				ID: ID{Namespace: "system", Name: fmt.Sprint("i", i)}, Since: begin.Add(time.Duration(random.IntN(3)) * time.Second), Alive: random.IntN(4) > 0,
				Claim: Claim{Scope: mustScope(t, scopes[random.IntN(len(scopes))])}, Works: shard.None(),
			}
			if r.Alive && random.IntN(3) == 0 {
				r.Works = r.Scope
			}
			instances = append(instances, r)
		}
		for _, name := range names {
			expectOneOwner(t, instances, name)
		}
		if t.Failed() {
			return
		}
	}
}

func expectOneOwner(t *testing.T, instances []Registered, name string) {
	t.Helper()
	var owners, workers []string
	claimed, dedicated := false, false
	for _, self := range instances {
		if !self.Alive {
			dedicated = dedicated || slices.Contains(self.Scope.Included(), name)
			continue
		}
		claimed = claimed || self.Scope.Owns(name)
		share := Divide(self, instances)
		if share.Owned(self.Claim).Owns(name) {
			owners = append(owners, self.Name)
		}
		if !share.Scope.Owns(name) {
			continue
		}
		workers = append(workers, self.Name)
		for _, other := range instances {
			if other.ID != self.ID && other.Works.Owns(name) {
				t.Errorf("%s may work in %s, where %s works, of %+v", self.Name, name, other.Name, instances)
			}
		}
	}
	if len(owners) > 1 || len(workers) > 1 || claimed && !dedicated && len(owners) == 0 {
		t.Errorf("namespace %s belongs to %v, and %v may work there, of %+v", name, owners, workers, instances)
	}
}

// selector draws an instance that selects namespaces by their labels.
func selector(t *testing.T, random *rand.Rand, name string) Registered {
	t.Helper()
	texts := []string{"team=blue", "env=green", "team=red", "team"}
	parsed, err := labels.Parse(texts[random.IntN(len(texts))])
	if err != nil {
		t.Fatal(err)
	}
	r := Registered{
		ID: ID{Namespace: "system", Name: name}, Since: begin.Add(time.Duration(random.IntN(3)) * time.Second), Alive: random.IntN(4) > 0,
		Claim: Claim{Scope: mustScope(t, "*"), Selector: parsed, WatchFilter: []string{"", "x", "y"}[random.IntN(3)]}, Works: shard.None(),
	}
	if random.IntN(4) > 0 {
		r.Works = r.Scope
	}
	return r
}

// Whatever instances select: a cluster is left to others by all but one of those that claim it and work in its
// namespace, and that one is the one that it names, if that is among them.
func TestKeepsGivesAClusterToOne(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	namespace := map[string]string{"team": "blue", "env": "green"}
	for range 20_000 {
		var instances []Registered
		for i := range 1 + random.IntN(4) {
			instances = append(instances, selector(t, random, fmt.Sprint("i", i)))
		}
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Labels: map[string]string{clusterv1.WatchLabel: "x"}}}
		named := instances[random.IntN(len(instances))]
		stays := random.IntN(2) == 0
		if stays {
			cluster.Annotations = map[string]string{"archelon.io/instance": named.String()}
			stays = named.Alive && named.Works.Owns("p") // until it takes its name off
		}
		fit := slices.DeleteFunc(slices.Clone(instances), func(r Registered) bool {
			return !r.Alive || !r.Works.Owns("p") || !r.Covers(cluster) || !r.Selects(namespace)
		})
		has := slices.DeleteFunc(slices.Clone(fit), func(r Registered) bool { return Keeps(r, instances, cluster, namespace) })
		want := min(len(fit), 1)
		if stays {
			fit = slices.DeleteFunc(fit, func(r Registered) bool { return r.ID != named.ID })
			want = len(fit)
		}
		if len(has) != want || want == 1 && stays && has[0].ID != named.ID {
			t.Fatalf("a cluster with %v is taken by %v of %+v", cluster.Annotations, has, instances)
		}
	}
}
