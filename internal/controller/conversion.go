package controller

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// conversionFailure is how the API server begins what it says of an object of a CRD that it could not convert.
const conversionFailure = "conversion webhook for "

// ConversionFailure returns what the API server says of the conversion webhook of a CRD that it needed for a request,
// empty if the error has another cause. It names the kind, the address, and what went wrong.
func ConversionFailure(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	message := status.Status().Message
	if at := strings.Index(message, conversionFailure); at >= 0 {
		return message[at:] // A kind that the API server could not load says more before.
	}
	return ""
}

// ReadCluster reads one of the CAPI Clusters that options select from the API server. A list can come from its memory,
// so it reads one of the list by its name: the API server has to convert that.
func ReadCluster(ctx context.Context, live client.Reader, which ...client.ListOption) error {
	list := &clusterv1.ClusterList{}
	if err := live.List(ctx, list, append(which, client.Limit(1))...); err != nil || len(list.Items) == 0 {
		return err
	}
	one := &list.Items[0]
	return client.IgnoreNotFound(live.Get(ctx, client.ObjectKeyFromObject(one), one))
}
