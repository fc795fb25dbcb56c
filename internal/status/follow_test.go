package status

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is an API server that answers with one list after the other, and has forgotten the
// version of all but the last.
type history struct {
	client.WithWatch

	lists [][]string
	end   context.CancelFunc
}

func (h *history) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	list, ok := into.(*clusterv1.ClusterList)
	if !ok {
		return errors.New("a list of something else")
	}
	list.ResourceVersion = strings.Repeat("1", len(h.lists))
	for _, name := range h.lists[0] {
		list.Items = append(list.Items, clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}})
	}
	h.lists = h.lists[1:]
	return nil
}

func (h *history) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	w := watch.NewFakeWithChanSize(1, false)
	if len(h.lists) == 0 {
		h.end()
		return w, nil
	}
	w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
	return w, nil
}

// What happens while nobody can watch is told all the same, once.
func TestFollowAfterExpiry(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	out := &bytes.Buffer{}
	server := &history{lists: [][]string{{"goes", "stays"}, {"comes", "stays"}}, end: end}
	if err := Run(ctx, server, Options{Watch: true, NoHeaders: true}, out, out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		fields := strings.Fields(line)
		got = append(got, fields[1]+" "+fields[3])
	}
	if want := "goes -,stays -,comes -,goes (deleted)"; strings.Join(got, ",") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ","), want)
	}
}

// deletion is an API server that loses a cluster between the first list and the watch.
type deletion struct {
	client.WithWatch

	lists int
	end   context.CancelFunc
}

func (d *deletion) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	list, ok := into.(*clusterv1.ClusterList)
	if !ok {
		return errors.New("a list of something else")
	}
	if d.lists++; d.lists > 1 {
		list.ResourceVersion = "2" // Whoever lists again does not learn of it.
		return nil
	}
	list.ResourceVersion, list.Items = "1", []clusterv1.Cluster{goes()}
	return nil
}

func goes() clusterv1.Cluster {
	return clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "goes", ResourceVersion: "2"}}
}

func (d *deletion) Watch(_ context.Context, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	w := watch.NewFakeWithChanSize(2, false)
	if options.Raw == nil || options.Raw.ResourceVersion != "1" {
		d.end() // All has been told.
		return w, nil
	}
	gone, other := goes(), goes()
	other.Name = "unknown" // What came and went is nobody's business.
	w.Delete(&gone)
	w.Delete(&other)
	w.Stop()
	return w, nil
}

func TestFollowFromTheList(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	out := &bytes.Buffer{}
	if err := Run(ctx, &deletion{end: end}, Options{Watch: true, NoHeaders: true}, out, out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "goes"); got != 2 || strings.Count(out.String(), "(deleted)") != 1 {
		t.Errorf("got %s", out)
	}
}
