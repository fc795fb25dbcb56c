// The site of the documentation: what builds it, and what looks at it. It is a module of its own, so that none of it enters the graph of the product.
module github.com/archelon-io/archelon/hack/site

go 1.26.0

require (
	github.com/alecthomas/chroma/v2 v2.27.0
	github.com/chromedp/cdproto v0.159.2
	github.com/chromedp/chromedp v0.23.0
	github.com/yuin/goldmark v1.8.7
	golang.org/x/net v0.55.0
)

require (
	github.com/dlclark/regexp2/v2 v2.2.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
)
