package baremetal

import (
	"fmt"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
)

// The status of a claim is for tenants. It never quotes status.errorMessage of a BareMetalHost, which may have the
// address of a BMC: it says by the kind of the error what failed, and where administrators find the rest.

// errorOf says what is wrong with a host, and what to do about it.
func errorOf(host *bmov1.BareMetalHost) string {
	operation := operationOf(host)
	note := failureOf(host, operation)
	if operation != provision {
		return note + ". " + askAdministrator
	}
	return note + ". Check " + deployed(host) + ". If that is right, ask your administrator, who finds the cause in " +
		"status.errorMessage of that BareMetalHost"
}

// cleaningOf says how far the cleaning of a host is that its claim gives back.
func cleaningOf(host *bmov1.BareMetalHost) string {
	if host.Status.ErrorMessage == "" {
		return "Waiting until Metal3 has cleaned BareMetalHost " + keyOf(host).String()
	}
	operation := operationOf(host)
	if host.Status.Provisioning.State == bmov1.StateDeprovisioning && operation == provision {
		operation = deprovision // Nothing else of Metal3's runs by now.
	}
	return failureOf(host, operation) + ". Until the host is cleaned, it is not given back, and this HostClaim stays. " + askAdministrator
}

const askAdministrator = "Ask your administrator, who finds the cause in status.errorMessage of that BareMetalHost"

// failureOf says which operation failed, and how often.
func failureOf(host *bmov1.BareMetalHost, operation string) string {
	if operation == "" {
		return "Metal3 reports an error of BareMetalHost " + keyOf(host).String()
	}
	often := ""
	if count := host.Status.ErrorCount; count > 1 {
		often = fmt.Sprintf(" %d times in a row", count)
	}
	return fmt.Sprintf("Metal3 failed%s to %s BareMetalHost %s, and tries again", often, operation, keyOf(host))
}

// Operations of Metal3 that have one kind of error.
const (
	provision   = "provision"
	deprovision = "deprovision"
)

// operationOf returns what Metal3 failed to do with a host, empty if that is not known.
func operationOf(host *bmov1.BareMetalHost) string {
	switch host.Status.ErrorType {
	case bmov1.ProvisioningError:
		// An image that was not written to its end is deprovisioned before the next try, and the error stays until that
		// begins. Only an image that was written is in the status.
		if host.Status.Provisioning.State == bmov1.StateDeprovisioning && host.WasProvisioned() {
			return deprovision
		}
		return provision
	case bmov1.RegistrationError, bmov1.ProvisionedRegistrationError:
		return "connect to the BMC of"
	case bmov1.InspectionError:
		return "inspect"
	case bmov1.PreparationError:
		return "prepare"
	case bmov1.PowerManagementError:
		return "switch the power of"
	case bmov1.DetachError:
		return "detach"
	case bmov1.ServicingError:
		return "service"
	default:
		return ""
	}
}

// deployed names the fields of a claim that say what Metal3 writes to its host.
func deployed(host *bmov1.BareMetalHost) string {
	if host.Spec.CustomDeploy != nil {
		return "spec.customDeploy.method"
	}
	return "spec.image.url and spec.image.checksum"
}

// deletionOf says what becomes of a claim whose host an administrator deletes.
func deletionOf(host *bmov1.BareMetalHost) string {
	note := "An administrator is deleting BareMetalHost " + keyOf(host).String()
	if !host.WasProvisioned() {
		return note + ". After that, this HostClaim gets another host. If you want none, delete this HostClaim"
	}
	return note + ", and Metal3 deprovisions it first: what runs on it ends. After that, this HostClaim gets another host, or, if " +
		"Metal3 cannot deprovision this one, none (reason HostLost). Save what you need now. If you want no other host, delete this HostClaim"
}

// withdrawalOf says what becomes of a claim that must not have its host any more.
func withdrawalOf(host *bmov1.BareMetalHost, namespace, why string) string {
	return fmt.Sprintf("BareMetalHost %s is not open to namespace %s any more: %s. This HostClaim keeps the host until you delete it. "+
		"Ask your administrator to allow the namespace again, or move what runs on the host and delete this HostClaim",
		keyOf(host), namespace, why)
}
