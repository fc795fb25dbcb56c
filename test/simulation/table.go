package simulation

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tables have objects by kind, in the order of their names. There are few kinds, and few objects of each, so looking
// through them takes less time than a map. Objects in them are never changed, only replaced, so any number of tables
// share them.
type tables []table

type table struct {
	kind schema.GroupKind
	rows []row
}

type row struct {
	key    Key
	object client.Object
}

// of returns the rows of a kind. They must not be changed.
func (t *tables) of(kind schema.GroupKind) []row {
	for i := range *t {
		if at := &(*t)[i]; at.kind.Kind == kind.Kind && at.kind.Group == kind.Group { // Groups have kinds, seldom kinds groups.
			return at.rows
		}
	}
	return nil
}

// set replaces the rows of a kind.
func (t *tables) set(kind schema.GroupKind, rows []row) {
	for i := range *t {
		if (*t)[i].kind == kind {
			(*t)[i].rows = rows
			return
		}
	}
	*t = append(*t, table{kind, rows})
}

// place returns where an object is among the rows of its kind, or would be.
func place(rows []row, key Key) (int, bool) {
	for i := range rows {
		if order := compareKeys(rows[i].key, key); order >= 0 {
			return i, order == 0
		}
	}
	return len(rows), false
}

func (t *tables) get(key Key) client.Object {
	rows := t.of(key.Kind)
	if i, found := place(rows, key); found {
		return rows[i].object
	}
	return nil
}

func (t *tables) put(key Key, object client.Object) {
	rows := t.of(key.Kind)
	i, found := place(rows, key)
	if found {
		rows[i].object = object
		return
	}
	t.set(key.Kind, slices.Insert(rows, i, row{key, object}))
}

func (t *tables) drop(key Key) {
	rows := t.of(key.Kind)
	if i, found := place(rows, key); found {
		t.set(key.Kind, slices.Delete(rows, i, i+1))
	}
}

// copyRows returns the rows of a kind as they are now.
func (t *tables) copyRows(kind schema.GroupKind) []row { return slices.Clone(t.of(kind)) }

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
