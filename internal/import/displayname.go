package importer

import (
	"cmp"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

// Rancher brings Secrets of a Fleet workspace to clusters by their display names, and so does Fleet with what is
// targeted by that name. Records of tenants who know nothing of each other share a workspace, so a tenant who gives its
// cluster the name of another's would get what is meant for that. Rancher's own API refuses a name that is taken. The
// Kubernetes API does not, so this is done here: before a record is created, and again before its agent is installed,
// for two instances may create records at the same time. The older one stays. What people rename in Rancher is their
// decision.

// naming returns the part of the desired record that its display name depends on.
func naming(cluster *clusterv1.Cluster, record string) (Desired, error) {
	display, err := displayName(cluster.Annotations)
	if err != nil {
		return Desired{}, invalidSetting(archelonv1.DisplayNameAnnotation, err)
	}
	workspace, err := fleetWorkspace(cluster.Annotations)
	if err != nil {
		return Desired{}, invalidSetting(archelonv1.FleetWorkspaceAnnotation, err)
	}
	return Desired{Cluster: cluster, Name: record, DisplayName: display, FleetWorkspace: workspace}, nil
}

// apartFrom is the display name of a CAPI cluster whose name, in the form, another management cluster has taken: it
// names its management cluster as well. It is empty where nobody has named the management cluster, and
// where the two names are none in one.
func (r Rules) apartFrom(cluster *clusterv1.Cluster, form DisplayNameForm) string {
	name := form.Of(cluster) + "-" + r.OriginName
	if r.OriginName == "" || len(validation.IsDNS1123Label(name)) > 0 {
		return ""
	}
	return name
}

// wantedNameKeys returns the values of wantedNameIndex for a CAPI cluster. The form that was chosen is among them: a
// cluster that keeps the other one looks now and then.
func (r Rules) wantedNameKeys(object client.Object) []string {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok {
		return nil
	}
	var keys []string
	for _, form := range slices.Compact([]DisplayNameForm{NameForm, cmp.Or(r.DisplayName, NameForm)}) {
		keys = append(keys, rancher.FoldDisplayName(form.Of(cluster)))
		if apart := r.apartFrom(cluster, form); apart != "" {
			keys = append(keys, rancher.FoldDisplayName(apart))
		}
	}
	for _, strategy := range r.strategies() {
		first := strategy.ProposeName(cluster, func(string) bool { return false })
		for _, record := range []string{first, strategy.ProposeName(cluster, func(name string) bool { return name == first })} {
			desired, err := naming(cluster, record)
			if err != nil {
				return keys
			}
			name, unique := strategy.DisplayName(desired)
			if key := rancher.FoldDisplayName(name); unique && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// claimDisplayName stops where another Rancher cluster has the display name that a new record is to have, or is about
// to get it.
func (d *deciding) claimDisplayName(desired Desired) Decision {
	name, unique := d.kind().DisplayName(desired)
	if !unique || d.ownName() != "" {
		return pass()
	}
	self := ""
	if d.kind().Nature().Itself {
		self = desired.Name // The record may be there already, and have lost its labels.
	}
	if d.lacks(askHolders{name}) {
		return ask(askHolders{name})
	}
	if holder := otherHolder(d.holders[name], d.cluster.UID, self); holder != nil {
		if apart := d.toldApart(desired); apart.DisplayName != desired.DisplayName {
			return d.claimDisplayName(apart)
		}
		return d.displayNameTaken(d.kind(), name, holder)
	}
	return d.reserveDisplayName(name)
}

// toldApart has a new record named after its management cluster as well, if nobody asked for a name and another
// Rancher cluster has the first one.
func (d *deciding) toldApart(desired Desired) Desired {
	name, unique := d.kind().DisplayName(desired)
	if apart := d.apartFrom(desired.Cluster, desired.Form); unique && desired.DisplayName == "" && apart != "" &&
		otherHolder(d.holders[name], desired.Cluster.UID, desired.Name) != nil {
		desired.DisplayName = apart
	}
	return desired
}

// otherHolder returns the oldest of the v3 Clusters that was not created for the CAPI cluster and is not called self,
// or nil.
func otherHolder(holders []rancher.NamedCluster, cluster types.UID, self string) *rancher.NamedCluster {
	for i := range holders {
		if holders[i].Owner != cluster && holders[i].Name != self {
			return &holders[i]
		}
	}
	return nil
}

func (d *deciding) reserveDisplayName(name string) Decision {
	if d.lacks(reserveName{name}) {
		return act(reserveName{name})
	}
	if left := d.reserved[name]; left > 0 {
		return stop(outcome.Poll(archelonv1.DisplayNameTakenReason, fmt.Sprintf(
			"Waiting: another import is creating a Rancher cluster with display name %q. If that succeeds, set annotation %s to another name on this Cluster", name, archelonv1.DisplayNameAnnotation), left))
	}
	return pass()
}

func (d *deciding) displayNameTaken(strategy Strategy, name string, holder *rancher.NamedCluster) Decision {
	remedy := fmt.Sprintf("Set annotation %s to another name on this Cluster", archelonv1.DisplayNameAnnotation)
	if !strategy.Nature().Itself {
		remedy = fmt.Sprintf("Remove annotation %s, or create this Cluster under another name", archelonv1.FleetWorkspaceAnnotation)
	}
	message := fmt.Sprintf("Rancher cluster %s already has the display name %q. Display names must be unique, because Rancher and Fleet look clusters up by them. %s, or rename or delete the other Rancher cluster",
		holder.Name, name, remedy)
	if d.hasRecord() {
		message += ". Until then, the Rancher cluster of this Cluster keeps its name"
	}
	return stall(archelonv1.DisplayNameTakenReason, message)
}

// checkDisplayName follows a changed display name, and lets the younger of two Rancher clusters of one name have no
// agent. One that was connected is left alone: whoever gave the name to a second one has done so in Rancher.
func (d *deciding) checkDisplayName() Decision {
	object := d.management.object
	itself := object.UID == d.record.GetUID()
	if behind := d.managements[object.Name]; itself && !behind.ahead && !behind.renamed {
		if changed := d.changeDisplayName(); !changed.passes() {
			return changed
		}
	}
	// Rancher decides on the workspace of the v3 Cluster behind a v1 record.
	apart := !itself && (object.Spec.FleetWorkspaceName == "" || object.Spec.FleetWorkspaceName == d.cluster.Namespace)
	if apart || d.management.known || d.management.connected {
		return pass()
	}
	name := object.Spec.DisplayName
	if d.lacks(askHolders{name}) {
		return ask(askHolders{name})
	}
	holders := d.holders[name]
	self := slices.IndexFunc(holders, func(c rancher.NamedCluster) bool { return c.UID == object.UID })
	if self < 0 {
		// What was created before it comes by the same watch before it, so whoever sees it sees all that are older.
		return stop(waitingForRancher())
	}
	holder := otherHolder(holders[:self], d.cluster.UID, object.Name)
	if holder == nil {
		return pass()
	}
	// Imports from two management clusters may have found the name free at the same time.
	desired, err := naming(d.cluster, object.Name)
	form := formOf(object)
	if apart := d.apartFrom(d.cluster, form); err == nil && itself && apart != "" && name != apart && desired.DisplayName == "" {
		return renamed(object, apart)
	}
	taken := d.displayNameTaken(d.record.strategy, name, holder)
	if form == NamespaceNameForm && form != d.DisplayName {
		// No watch finds the cluster by that name.
		taken.Outcome = outcome.Poll(taken.Outcome.Reason, taken.Outcome.Message, unseenRecheck)
	}
	return taken
}

// changeDisplayName renames a v3 record. A name that is taken is refused where the owner of the CAPI cluster asked for
// it. Otherwise the record was renamed in Rancher and its old name is another's now, so it keeps the one that it has.
func (d *deciding) changeDisplayName() Decision {
	object := d.management.object
	desired, err := naming(d.cluster, object.Name)
	if err != nil {
		return fail(err)
	}
	desired.Form = formOf(object)
	name, _ := d.record.strategy.DisplayName(desired)
	apart := d.apartFrom(d.cluster, desired.Form)
	if name == object.Spec.DisplayName || desired.DisplayName == "" && apart == object.Spec.DisplayName {
		return pass()
	}
	if d.lacks(askHolders{name}) {
		return ask(askHolders{name})
	}
	switch holder := otherHolder(d.holders[name], d.cluster.UID, object.Name); {
	case holder == nil:
	case desired.DisplayName != "":
		return d.displayNameTaken(d.record.strategy, name, holder)
	default:
		return pass()
	}
	if reserved := d.reserveDisplayName(name); !reserved.passes() {
		return reserved
	}
	return renamed(object, name)
}

// renamed gives a v3 Cluster a display name.
func renamed(object *managementv3.Cluster, name string) Decision {
	return act(updateManagement{
		name: object.Name, displayName: name,
		patch: fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"displayName":%q}}`, object.UID, name),
	})
}
