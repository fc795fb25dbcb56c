// Package webhook serves admission webhooks over TLS, in all replicas, and looks after the certificates. It knows no webhook: whoever sets it up
// gives it handlers.
//
// There are two ways to a certificate. Either somebody else writes it into a directory, cert-manager through a volume for example. Or this
// package makes it: one Secret holds a CA and the certificate that the CA has signed, each replica serves what a watch on the Secret
// brings, and a controller in each (Keeper) renews both and publishes the CA as caBundle of one ValidatingWebhookConfiguration. docs/adr/0012 says why it is
// made here.
//
// For the second way the ServiceAccount needs, on these two names and nothing more:
//
//	secrets                          get list watch patch create   resourceNames: [--webhook-secret], in the manager's namespace
//	validatingwebhookconfigurations  get list watch patch          resourceNames: [--webhook-configuration]
//
// They are not kubebuilder markers, for the names are those of an installation. Lists and watches have a field selector on the name, which is
// how RBAC can limit them to it. So does create, because the Secret is created by server-side apply, where the name is a part of the request;
// without that right the Secret has to be there, it may be empty.
package webhook
