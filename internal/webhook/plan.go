package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The keys of the Secret. caCert holds the CA that signs first, and after it those that are still to be trusted.
const (
	caCert  = "ca.crt"
	caKey   = "ca.key"
	tlsCert = "tls.crt"
	tlsKey  = "tls.key"
)

const (
	// settle is how long the API servers have had a CA before a certificate that it signed is served. They learn of it by their watches.
	settle = 10 * time.Second
	// maxAuthorities bounds what is trusted at the same time. It takes rotations by hand to have more than two.
	maxAuthorities = 8
)

// situation is what a plan depends on.
type situation struct {
	// secret is the content of the Secret.
	secret map[string][]byte
	// bundles are the caBundles of all webhooks of the configuration.
	bundles [][]byte
	// since says from when on all bundles are known to have held a CA.
	since map[fingerprint]time.Time
	// names are those under which the API server calls.
	names []string
	now   time.Time
}

// plan is what to do. A client that trusts what is in the bundles, before it or after it is done, accepts what is in the Secret, and what was.
type plan struct {
	// secret is the content that the Secret is to have; it is the same as before if there is nothing to do.
	secret map[string][]byte
	// bundle is what each webhook of the configuration is to have as its caBundle.
	bundle []byte
	// next is when to look again.
	next time.Time
	// authority and certificate say whether there is a new one.
	authority, certificate bool
}

// decide plans. A new CA is written into the Secret and published before it signs; whatever is served until then remains. An old CA is trusted
// until the last certificate that it signed has ended. So replicas may learn of all of it as late as they like.
func decide(s situation) (plan, error) {
	p := plan{secret: map[string][]byte{}}
	maps.Copy(p.secret, s.secret)
	known := parseAuthorities(s.secret[caCert])
	published := union(s.bundles)
	signer := findSigner(known, s)
	if signer == nil {
		// The Secret is new or damaged. What clients trust tells which CA replicas may still serve under.
		known = appendNew(known, published...)
		signer = findSigner(known, s)
	}
	if signer == nil || !s.now.Before(renewal(signer.certificate)) {
		var err error
		if signer, err = newAuthority(s.now); err != nil {
			return plan{}, err
		}
		p.authority = true
		if p.secret[caKey], err = keyutil.MarshalPrivateKeyToPEM(signer.key); err != nil {
			return plan{}, errors.New("encoding the key of a CA failed")
		}
	}
	trusted := p.trust(s, signer, known)
	var err error
	if p.bundle, err = cert.EncodeCertificates(trusted...); err != nil {
		return plan{}, err
	}
	p.secret[caCert] = p.bundle
	p.wake(renewal(signer.certificate))
	return p, p.serve(s, signer, published)
}

// findSigner returns the CA whose key the Secret holds, if it can still sign.
func findSigner(candidates []*x509.Certificate, s situation) *authority {
	key := parseKey(s.secret[caKey])
	for _, certificate := range candidates {
		if signer := (&authority{certificate: certificate, key: key}); belongs(key, certificate) && signer.able(s.names, s.now) {
			return signer
		}
	}
	return nil
}

// trust returns the CAs to be trusted: the one that signs, and those whose certificates may still be served.
func (p *plan) trust(s situation, signer *authority, known []*x509.Certificate) []*x509.Certificate {
	trusted := []*x509.Certificate{signer.certificate}
	// Since there is this one, no other has signed.
	lastEnd := signer.certificate.NotBefore.Add(backdate + servingLife)
	for _, old := range known {
		end := lastEnd
		if old.NotAfter.Before(end) {
			end = old.NotAfter
		}
		if contains(trusted, old) || !s.now.Before(end) || len(trusted) == maxAuthorities {
			continue
		}
		trusted = append(trusted, old)
		p.wake(end)
	}
	return trusted
}

// serve plans the certificate.
func (p *plan) serve(s situation, signer *authority, published []*x509.Certificate) error {
	pair := parsePair(s.secret[tlsCert], s.secret[tlsKey])
	if pair != nil && verifies(pair, []*x509.Certificate{signer.certificate}, s.names, s.now) && s.now.Before(renewal(pair.Leaf)) {
		p.wake(renewal(pair.Leaf))
		return nil
	}
	// Where nothing is trusted there is nothing to wait for.
	if slices.ContainsFunc(published, func(c *x509.Certificate) bool { return valid(c, s.now) }) {
		since, ok := s.since[fingerprintOf(signer.certificate)]
		if !ok {
			since = s.now
		}
		if usable := since.Add(settle); s.now.Before(usable) {
			p.wake(usable)
			return nil
		}
	}
	var err error
	p.secret[tlsCert], p.secret[tlsKey], err = signer.issue(s.names, s.now)
	if err != nil {
		return err
	}
	p.certificate = true
	if pair := parsePair(p.secret[tlsCert], p.secret[tlsKey]); pair != nil {
		p.wake(renewal(pair.Leaf))
	}
	return nil
}

func (p *plan) wake(at time.Time) {
	if p.next.IsZero() || at.Before(p.next) {
		p.next = at
	}
}

// servable returns the certificate in a Secret if clients that trust the CAs in it accept it, else nil.
func servable(secret map[string][]byte, names []string, now time.Time) *tls.Certificate {
	pair := parsePair(secret[tlsCert], secret[tlsKey])
	if pair == nil || !verifies(pair, parseAuthorities(secret[caCert]), names, now) {
		return nil
	}
	return pair
}

// union returns the CAs that some of the bundles hold.
func union(bundles [][]byte) []*x509.Certificate {
	return parseAuthorities(bytes.Join(bundles, []byte("\n")))
}

// observe notes from when on all of the bundles are known to hold a CA.
func observe(since map[fingerprint]time.Time, bundles [][]byte, now time.Time) {
	everywhere := map[fingerprint]int{}
	for _, bundle := range bundles {
		for _, certificate := range parseAuthorities(bundle) {
			everywhere[fingerprintOf(certificate)]++
		}
	}
	for id := range everywhere {
		if _, ok := since[id]; !ok {
			since[id] = now
		}
	}
	maps.DeleteFunc(since, func(id fingerprint, _ time.Time) bool { return everywhere[id] < len(bundles) })
}
