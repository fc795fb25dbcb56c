package edge

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is published when a request to Rancher's cluster fails. Tenants read it in conditions and Events, so neither the
// address of Rancher's API nor the account of Archelon is in it, as both are in what client-go reports.
const (
	noAnswer = "Rancher does not answer. Archelon tries again. After 5 minutes, ask your administrator, " +
		"because the log of Archelon has the cause"
	refusal = "Rancher refuses a request of Archelon. Ask your administrator, because the log of Archelon has the cause"
)

// Published returns a client of Rancher's cluster whose errors may be published. The log has their causes.
func Published(c client.Client) client.Client {
	return &published{Client: c, reader: publishedReader{Reader: c}}
}

// PublishedReader is Published for reads.
func PublishedReader(r client.Reader) client.Reader { return &publishedReader{Reader: r} }

type published struct {
	client.Client

	reader publishedReader
}

// Get implements client.Reader.
func (p *published) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	return p.reader.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (p *published) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return p.reader.List(ctx, list, options...)
}

// Create implements client.Writer.
func (p *published) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return publish(ctx, p.Client.Create(ctx, object, options...))
}

// Patch implements client.Writer.
func (p *published) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	return publish(ctx, p.Client.Patch(ctx, object, patch, options...))
}

// Update implements client.Writer.
func (p *published) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return publish(ctx, p.Client.Update(ctx, object, options...))
}

// Delete implements client.Writer.
func (p *published) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return publish(ctx, p.Client.Delete(ctx, object, options...))
}

type publishedReader struct{ client.Reader }

// Get implements client.Reader.
func (p *publishedReader) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	return publish(ctx, p.Reader.Get(ctx, key, object, options...))
}

// List implements client.Reader.
func (p *publishedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return publish(ctx, p.Reader.List(ctx, list, options...))
}

// publish replaces the text of an error that is not an answer about the object itself.
func publish(ctx context.Context, err error) error {
	text := noAnswer
	switch status := apierrors.APIStatus(nil); {
	case err == nil:
		return nil
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		text = refusal
	case errors.As(err, &status) && !apierrors.IsUnexpectedServerError(err):
		return err
	}
	if ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Info("A request to Rancher's cluster failed", "cause", err.Error())
	}
	return &publishedError{text: text, cause: err}
}

type publishedError struct {
	text  string
	cause error
}

// Error implements error.
func (e *publishedError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *publishedError) Unwrap() error { return e.cause }
