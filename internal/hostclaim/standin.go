package hostclaim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"

	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// StandIn is the BareMetalHost that stands for the host of a Metal3Machine's claim. The Metal3 provider of Cluster API
// looks for the node of the Machine by the UID of this BareMetalHost. The node can learn the UID only from the metaData
// of the real host.
type StandIn struct {
	types.NamespacedName

	UID types.UID
}

// StandInOf returns the stand-in for the host of a claim, nil if there is none.
func StandInOf(claim *metal3v1.HostClaim) *StandIn {
	uid := claim.Annotations[metal3v1.StandInAnnotation]
	if uid == "" || len(validation.IsValidLabelValue(uid)) > 0 {
		return nil // It cannot be a label of a node.
	}
	return &StandIn{types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}, types.UID(uid)}
}

// Described returns the stand-in of a claim if the copy of the Secret with this role describes it, otherwise nil. The
// copy of the metaData describes it as soon as the claim asks for an image, also if the claim names no metaData.
func Described(claim *metal3v1.HostClaim, r Role) *StandIn {
	if r != MetaData || claim.Spec.Image == nil && claim.Spec.CustomDeploy == nil {
		return nil
	}
	return StandInOf(claim)
}

// CopyVersion identifies the content of a copy, as the value of a label: the version of a Secret, or a hash if the copy
// also describes a stand-in. The source is nil if the copy describes a stand-in and nothing else.
func CopyVersion(source *metav1.PartialObjectMetadata, of *StandIn) string {
	if of == nil {
		return Version(source)
	}
	text := string(of.UID) + " " + of.String()
	if source != nil {
		text += " " + Version(source)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:20])
}

// Source returns the content of a copy: the Secret as it was observed, with the description of the stand-in. Each of
// the two can be nil.
func Source(ctx context.Context, from client.Reader, seen *metav1.PartialObjectMetadata, of *StandIn) (*corev1.Secret, error) {
	source := &corev1.Secret{Type: corev1.SecretTypeOpaque}
	if seen != nil {
		var err error
		if source, err = StateOf(ctx, from, seen); err != nil {
			return nil, err
		}
	}
	if of != nil {
		source.Data = of.Describe(source.Data)
	}
	return source, nil
}

// Keys of a Secret in which the baremetal-operator looks for metaData, in this order.
const (
	metaDataKey = "metaData"
	anyDataKey  = "value"
)

// Describe adds to the data of a Secret with metaData the values that the baremetal-operator would add if it
// provisioned the stand-in: UID, namespace and name. Keys that the Secret has keep their values, as in the operator.
//
// Metal3's templates label a node by it: metal3.io/uuid={{ ds.meta_data.uuid }}.
func (s *StandIn) Describe(data map[string][]byte) map[string][]byte {
	raw, ok := data[metaDataKey]
	if !ok {
		raw = data[anyDataKey]
	}
	described, err := s.describe(raw)
	if err != nil {
		return data // The baremetal-operator reports that it cannot read it.
	}
	after := maps.Clone(data)
	if after == nil {
		after = map[string][]byte{}
	}
	after[metaDataKey] = described
	return after
}

// describe adds keys to a mapping in YAML. It parses the text and does not decode it: a tenant can write aliases that
// expand to more than the memory of the process.
func (s *StandIn) describe(raw []byte) ([]byte, error) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 { // It is empty, or has comments alone.
		document = yamlv3.Node{Kind: yamlv3.DocumentNode, Content: []*yamlv3.Node{{Kind: yamlv3.MappingNode}}}
	}
	mapping := document.Content[0]
	if mapping.Kind == yamlv3.ScalarNode && mapping.Tag == "!!null" {
		*mapping = yamlv3.Node{Kind: yamlv3.MappingNode}
	}
	if mapping.Kind != yamlv3.MappingNode {
		return raw, nil
	}
	said := map[string]bool{}
	for i := 0; i < len(mapping.Content); i += 2 {
		said[mapping.Content[i].Value] = true
	}
	var first []*yamlv3.Node
	for _, each := range []struct{ key, value string }{
		{"uuid", string(s.UID)}, {"metal3-namespace", s.Namespace}, {"metal3-name", s.Name},
		{"name", s.Name}, {"local-hostname", s.Name}, {"local_hostname", s.Name},
	} {
		if !said[each.key] {
			first = append(first, text(each.key), text(each.value))
		}
	}
	mapping.Content = append(first, mapping.Content...)
	return yamlv3.Marshal(&document)
}

// text is a string, whatever it looks like.
func text(value string) *yamlv3.Node {
	return &yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: "!!str", Value: value}
}
