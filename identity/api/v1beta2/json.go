package v1beta2

import (
	"encoding/json"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// UnmarshalJSON notes a list that is null: its field cannot tell it from one that is not there.
func (a *AllowedNamespaces) UnmarshalJSON(raw []byte) error {
	type plain AllowedNamespaces
	decoded := plain{}
	if err := utiljson.Unmarshal(raw, &decoded); err != nil {
		return err
	}
	present := map[string]json.RawMessage{}
	if err := utiljson.Unmarshal(raw, &present); err != nil {
		return err
	}
	_, listed := present["list"]
	decoded.NullList = listed && decoded.NamespaceList == nil
	*a = AllowedNamespaces(decoded)
	return nil
}

// MarshalJSON keeps a list that is null: without it the object would become the empty one, which allows all namespaces.
func (a *AllowedNamespaces) MarshalJSON() ([]byte, error) {
	fields := map[string]any{}
	if a.NamespaceList != nil || a.NullList {
		fields["list"] = a.NamespaceList
	}
	if a.Selector != nil {
		fields["selector"] = a.Selector
	}
	return json.Marshal(fields)
}
