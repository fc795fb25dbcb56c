package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reference names what a Pod is made from besides itself.
type reference struct{ kind, namespace, name string }

// secret returns the data of a Secret, nothing if it is optional and not there.
func (p *pod) secret(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	p.refer(reference{"Secret", p.key.Namespace, name})
	secret, err := p.node.client.CoreV1().Secrets(p.key.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && is(optional) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return secret.Data, nil
}

// configMap returns the data of a ConfigMap, nothing if it is optional and not there.
func (p *pod) configMap(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	p.refer(reference{"ConfigMap", p.key.Namespace, name})
	object, err := p.node.client.CoreV1().ConfigMaps(p.key.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && is(optional) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data := maps.Clone(object.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	return data, nil
}

// mount brings the files of all volumes up to date. It is an error when something is missing; what
// is there already stays then.
func (p *pod) mount(ctx context.Context) error {
	var errs []error
	for i := range p.object.Spec.Volumes {
		volume := &p.object.Spec.Volumes[i]
		if err := p.mountOne(ctx, volume); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", volume.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (p *pod) mountOne(ctx context.Context, volume *corev1.Volume) error {
	dir := p.volumeDir(volume.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if volume.EmptyDir != nil {
		return nil
	}
	content := files{}
	var err error
	switch {
	case volume.Secret != nil:
		err = p.addSecret(ctx, content, volume.Secret.SecretName, volume.Secret.Items, volume.Secret.Optional, volume.Secret.DefaultMode)
	case volume.ConfigMap != nil:
		err = p.addConfigMap(ctx, content, volume.ConfigMap.Name, volume.ConfigMap.Items, volume.ConfigMap.Optional, volume.ConfigMap.DefaultMode)
	case volume.DownwardAPI != nil:
		err = p.addFields(content, volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	case volume.Projected != nil:
		err = p.addProjected(ctx, content, volume)
	}
	if err != nil || content.equal(p.mounted[volume.Name]) {
		return err
	}
	if err := content.write(dir); err != nil {
		return err
	}
	p.mounted[volume.Name] = content
	return nil
}

func (p *pod) addProjected(ctx context.Context, content files, volume *corev1.Volume) error {
	mode := volume.Projected.DefaultMode
	for _, source := range volume.Projected.Sources {
		var err error
		switch {
		case source.Secret != nil:
			err = p.addSecret(ctx, content, source.Secret.Name, source.Secret.Items, source.Secret.Optional, mode)
		case source.ConfigMap != nil:
			err = p.addConfigMap(ctx, content, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional, mode)
		case source.DownwardAPI != nil:
			err = p.addFields(content, source.DownwardAPI.Items, mode)
		case source.ServiceAccountToken != nil:
			err = p.addToken(ctx, content, volume.Name, source.ServiceAccountToken, mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pod) addSecret(ctx context.Context, content files, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	data, err := p.secret(ctx, name, optional)
	if err != nil {
		return err
	}
	return content.add(data, items, optional, mode)
}

func (p *pod) addConfigMap(ctx context.Context, content files, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	data, err := p.configMap(ctx, name, optional)
	if err != nil {
		return err
	}
	return content.add(data, items, optional, mode)
}

func (p *pod) addFields(content files, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for _, item := range items {
		if item.FieldRef == nil {
			return errors.New("test/node knows fields only in files of the downward API")
		}
		value, err := p.field(item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		content[item.Path] = file{data: value, mode: fileMode(item.Mode, mode)}
	}
	return nil
}

func (p *pod) volumeDir(name string) string { return filepath.Join(p.dir, "volumes", name) }
