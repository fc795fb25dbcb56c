package importer

import "time"

// kubeconfigRecheck is when a kubeconfig Secret that is missing or refused is looked at again although no
// watch shows it. The watch brings Secrets with CAPI's cluster-name label at once; some control plane
// providers leave the label out.
const kubeconfigRecheck = 30 * time.Second
