package simulation

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func labelsOf(object client.Object) labels.Labels { return labels.Set(object.GetLabels()) }

// kindOfList returns the kind of the objects of a list.
func kindOfList(scheme *runtime.Scheme, list client.ObjectList) schema.GroupKind {
	kind := kindOf(scheme, list)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind
}

// Fault is called before a request of a client is carried out, and again before its answer is given. An error becomes
// the answer; with it, what was carried out stays carried out. A panic with Crash ends the process.
type Fault func(verb string, key Key, answered bool) error

// Crash is the end of a process in the middle of something.
type Crash struct{}

// Client is a client of the server. It has what controllers of this project call; anything else panics.
type Client struct {
	client.Client // nil

	server *Server
	fault  Fault
}

// Client returns a client whose requests the fault can disturb.
func (s *Server) Client(fault Fault) *Client {
	if fault == nil {
		fault = func(string, Key, bool) error { return nil }
	}
	return &Client{server: s, fault: fault}
}

func (c *Client) view() view { return view{scheme: c.server.scheme, objects: c.server.objects} }

// Get implements client.Reader.
func (c *Client) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	key := c.server.KeyOf(into)
	key.NamespacedName = name
	return c.carryOut("get", key, func() error { return c.view().get(key, into) })
}

// List implements client.Reader.
func (c *Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind := kindOfList(c.server.scheme, list)
	return c.carryOut("list", Key{Kind: kind}, func() error { return c.view().list(kind, list, opts...) })
}

// Create implements client.Writer.
func (c *Client) Create(_ context.Context, object client.Object, opts ...client.CreateOption) error {
	key := c.server.KeyOf(object)
	if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
		if c.server.objects.get(key) != nil {
			return apierrors.NewAlreadyExists(key.resource(), key.Name)
		}
		return nil
	}
	return c.carryOut("create", key, func() error {
		c.server.Writes = append(c.server.Writes, Write{Verb: "create", Key: key})
		after, err := c.server.create(key, object)
		if err == nil {
			fill(object, after)
		}
		return err
	})
}

// Delete implements client.Writer.
func (c *Client) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	key, options := c.server.KeyOf(object), (&client.DeleteOptions{}).ApplyOptions(opts)
	return c.carryOut("delete", key, func() error {
		c.server.Writes = append(c.server.Writes, Write{Verb: "delete", Key: key})
		if options.Preconditions == nil {
			return c.server.remove(key, nil, nil)
		}
		return c.server.remove(key, options.Preconditions.UID, options.Preconditions.ResourceVersion)
	})
}

// Patch implements client.Writer for merge patches.
func (c *Client) Patch(_ context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if len((&client.PatchOptions{}).ApplyOptions(opts).DryRun) > 0 {
		return c.tryPatch(object, patch)
	}
	return c.patch(object, patch, false)
}

// tryPatch tells what a patch would come to, and stores nothing.
func (c *Client) tryPatch(object client.Object, patch client.Patch) error {
	raw, err := patch.Data(object)
	if err != nil {
		return err
	}
	after, err := c.server.patched(c.server.KeyOf(object), raw, false)
	if err == nil {
		fill(object, after)
	}
	return err
}

func (c *Client) patch(object client.Object, patch client.Patch, status bool) error {
	key := c.server.KeyOf(object)
	raw, err := patch.Data(object)
	if err != nil {
		return err
	}
	return c.carryOut("patch", key, func() error {
		c.server.Writes = append(c.server.Writes, Write{Verb: "patch", Key: key, Status: status})
		after, err := c.server.patch(key, raw, status)
		if err == nil {
			fill(object, after)
		}
		return err
	})
}

func (c *Client) carryOut(verb string, key Key, do func() error) error {
	if err := c.fault(verb, key, false); err != nil {
		return err
	}
	err := do()
	if lost := c.fault(verb, key, true); lost != nil {
		return lost
	}
	return err
}

// Status implements client.StatusClient.
func (c *Client) Status() client.SubResourceWriter { return statusClient{client: c} }

// Scheme implements client.Client.
func (c *Client) Scheme() *runtime.Scheme { return c.server.scheme }

// RESTMapper implements client.Client.
func (c *Client) RESTMapper() meta.RESTMapper { return nil }

// Cached returns the client of a manager: it reads from the cache, and writes to the server.
func (c *Client) Cached(cache *Cache) client.Client { return &cached{Client: c, cache: cache} }

type cached struct {
	*Client

	cache *Cache
}

// Get implements client.Reader.
func (c *cached) Get(ctx context.Context, name client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return c.cache.Get(ctx, name, into, opts...)
}

// List implements client.Reader.
func (c *cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.cache.List(ctx, list, opts...)
}

type statusClient struct {
	client.SubResourceWriter // nil

	client *Client
}

// Patch implements client.SubResourceWriter.
func (s statusClient) Patch(
	_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption,
) error {
	return s.client.patch(object, patch, true)
}
