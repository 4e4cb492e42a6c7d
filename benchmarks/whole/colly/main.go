// Colly as one who knows it would run it here: `colly SEED` crawls from there to the end and stores nothing.
//
// Asynchronous, robots.txt obeyed, 128 requests at once as ours, connections kept for all hosts (Go's default would
// close most of them). Its limits are a rule for each group of hosts and one rule for every host would cost it, so
// it is not held to one request at a time to each.
package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/gocolly/colly/v2"
)

const atOnce = 128

func main() {
	crawler := colly.NewCollector(colly.Async(true), colly.UserAgent("peer (+bench@example.org)"))
	crawler.IgnoreRobotsTxt = false
	crawler.DisableCookies()
	crawler.SetRequestTimeout(30 * time.Second)
	crawler.WithTransport(&http.Transport{MaxIdleConnsPerHost: atOnce, IdleConnTimeout: time.Minute})
	if err := crawler.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: atOnce}); err != nil {
		fail(err)
	}
	var failures atomic.Int64
	crawler.OnError(func(_ *colly.Response, err error) {
		failures.Add(1)
		fmt.Fprintln(os.Stderr, err)
	})
	crawler.OnHTML("a[href]", func(link *colly.HTMLElement) {
		var seen *colly.AlreadyVisitedError
		if err := link.Request.Visit(link.Attr("href")); err != nil && !errors.As(err, &seen) {
			failures.Add(1)
			fmt.Fprintln(os.Stderr, err)
		}
	})
	if err := crawler.Visit(os.Args[1]); err != nil {
		fail(err)
	}
	crawler.Wait()
	if failures.Load() > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
