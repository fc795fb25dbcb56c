package kubeconfig

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Allow says what kubeconfigs may ask for that is refused otherwise. The zero value allows nothing.
type Allow struct {
	// LocalProxies allows a proxy-url that leads to a loopback, link-local, unspecified or multicast address.
	LocalProxies bool
	// Exec, if it is set, allows programs that are run in this process to get credentials.
	Exec func(program *api.ExecConfig) bool
}

const (
	// proxyDialTimeout bounds a connection to a proxy where nothing else does.
	proxyDialTimeout = 30 * time.Second
	// keepAlive is the pause between two probes of a silent connection.
	keepAlive = 30 * time.Second
)

// LocalProxy says what is wrong with a kubeconfig whose proxy is local, and what to do. It does not name the address,
// because it is not for tenants what a name resolves to here.
const LocalProxy = "has a proxy-url that leads to a loopback, link-local, unspecified or multicast address. " +
	"Use a proxy with another address, or ask your administrator to allow local ones: Archelon has the Helm value proxy.allowLocalURLs for that"

// ErrLocalProxy is that a name in the proxy-url of a kubeconfig has been resolved to a local address.
var ErrLocalProxy = errors.New("the proxy-url of the kubeconfig leads to a local address")

// setProxy takes over a proxy. A server has to speak TLS, with the CA of the kubeconfig. Whatever listens at the
// address of a proxy receives a request in the clear, so the proxy of a stranger must not be local, unless that is
// allowed.
func setProxy(config *rest.Config, cluster *api.Cluster, allow Allow) error {
	if cluster.ProxyURL == "" {
		return nil
	}
	u, err := url.Parse(cluster.ProxyURL)
	switch {
	case err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5"):
		return refuse(ProxyReason,
			"has a proxy-url that is not an http, https or socks5 URL. Correct it")
	case endsInNumber(u.Hostname()):
		return refuse(ProxyReason,
			"has a proxy-url with a host that ends in a number and is no IP address. Correct it")
	case !allow.LocalProxies && isLocalHost(u.Hostname()):
		return refuse(ProxyReason, LocalProxy)
	}
	config.Proxy = http.ProxyURL(u)
	if !allow.LocalProxies {
		config.Dial = dialProxy // A transport with this Proxy dials nothing but the proxy.
	}
	return nil
}

// endsInNumber reports whether a host is neither an address nor a name. Some resolvers take 127.1, 0x7f.1 and
// 2130706433 for addresses.
func endsInNumber(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	name := strings.TrimSuffix(host, ".")
	_, err := strconv.ParseUint(name[strings.LastIndex(name, ".")+1:], 0, 64)
	return err == nil
}

// isLocalHost reports whether a host is a local address, or a name that always means one. What other names mean is seen
// when they are dialled.
func isLocalHost(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return isLocal(address)
	}
	name := "." + strings.ToLower(strings.TrimSuffix(host, "."))
	return strings.HasSuffix(name, ".localhost")
}

// isLocal reports whether what answers at an address is on this machine, or belongs to its network: metadata of a cloud
// with credentials, for example.
func isLocal(address netip.Addr) bool {
	address = address.Unmap()
	return address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsUnspecified() || address.IsMulticast()
}

// dialProxy connects to the proxy of a kubeconfig. It looks at the address that its name has been resolved to, so that
// it does not matter what the name resolves to at another time.
func dialProxy(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: proxyDialTimeout, KeepAlive: keepAlive, ControlContext: refuseLocal}
	return dialer.DialContext(ctx, network, address)
}

func refuseLocal(_ context.Context, _, address string, _ syscall.RawConn) error {
	if resolved, err := netip.ParseAddrPort(address); err != nil || isLocal(resolved.Addr()) {
		return ErrLocalProxy
	}
	return nil
}
