package drain

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// The bubble of synctest fails a test that leaves a goroutine behind.
func TestAWatchThatIsStoppedLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFake()
		watches := Watches(&toolscache.ListWatch{
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return watch.Filter(source, func(event watch.Event) (watch.Event, bool) { return event, true }), nil
			},
		})
		events, err := toolscache.ToListerWatcherWithContext(watches).WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		source.Add(&corev1.Pod{})
		if event := <-events.ResultChan(); event.Type != watch.Added {
			t.Errorf("the first event is %s", event.Type)
		}
		source.Add(&corev1.Pod{}) // Nobody takes it.
		synctest.Wait()
		events.Stop()
		events.Stop() // as informers do
	})
}
