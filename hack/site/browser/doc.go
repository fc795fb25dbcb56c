// Package browser looks at the site in a real browser, without a window: what search finds, that pages can be read
// dark, light and on a phone. It keeps pictures of what it saw.
package browser
