package members

// Reasons of condition RancherMembers, which say what examples/members/README.md explains.
const (
	// BoundReason is that of True: all members have their roles.
	BoundReason = "MembersBound"
	// InvalidReason: the annotation cannot be read. Members keep what they have until then.
	InvalidReason = "InvalidMembers"
	// NotAllowedReason: an administrator has not allowed a role template, or a group or user. All
	// other members have their roles.
	NotAllowedReason = "MemberNotAllowed"
	// RefusedReason: Rancher refused a binding.
	RefusedReason = "MemberRefused"
	// WaitingReason: the Rancher cluster does not exist yet, or is being prepared.
	WaitingReason = "WaitingForRancherCluster"
)
