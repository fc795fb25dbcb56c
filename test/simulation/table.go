package simulation

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tables have objects by kind, in the order of their names. There are few of each kind. Objects in them are never
// changed, only replaced, so any number of tables share them.
type tables map[schema.GroupKind][]row

type row struct {
	key    Key
	object client.Object
}

// place returns where an object is, or would be.
func (t tables) place(key Key) (int, bool) {
	rows := t[key.Kind]
	for i := range rows {
		if order := compareKeys(rows[i].key, key); order >= 0 {
			return i, order == 0
		}
	}
	return len(rows), false
}

func (t tables) get(key Key) client.Object {
	if i, found := t.place(key); found {
		return t[key.Kind][i].object
	}
	return nil
}

func (t tables) put(key Key, object client.Object) {
	i, found := t.place(key)
	if found {
		t[key.Kind][i].object = object
		return
	}
	t[key.Kind] = slices.Insert(t[key.Kind], i, row{key, object})
}

func (t tables) drop(key Key) {
	if i, found := t.place(key); found {
		t[key.Kind] = slices.Delete(t[key.Kind], i, i+1)
	}
}

// copyRows returns the rows of a kind as they are now.
func (t tables) copyRows(kind schema.GroupKind) []row { return slices.Clone(t[kind]) }

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
