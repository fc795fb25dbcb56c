// Package sign has the test of a release: from a tag to what users verify and install. Its
// module pins cosign, which signs.
package sign
