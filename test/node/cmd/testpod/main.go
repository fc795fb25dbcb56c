// Command testpod is what the Pods of this repository's tests run: a server whose health can be changed from outside.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	address := flag.String("listen", "", "serve at this address until SIGTERM")
	code := flag.Int("exit", 0, "end with this code")
	stubborn := flag.Bool("stubborn", false, "ignore SIGTERM")
	linger := flag.Duration("linger", 0, "how long to go on after SIGTERM")
	warmUp := flag.Duration("warm-up", 0, "how long not to be ready at first")
	read := flag.String("read", "", "the file that /file returns")
	flag.Parse()
	fmt.Println("started with", os.Args[1:])
	if *address == "" {
		os.Exit(*code)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		for {
			<-ended
			fmt.Println("asked to end")
			if !*stubborn {
				<-time.After(*linger)
				fmt.Println("ends")
				os.Exit(*code)
			}
		}
	}()
	if err := serve(*address, *read, *warmUp); err != nil {
		fmt.Fprintln(os.Stderr, "testpod:", err)
		os.Exit(1)
	}
}

func serve(address, file string, warmUp time.Duration) error {
	var unready, unhealthy atomic.Bool
	unready.Store(warmUp > 0)
	time.AfterFunc(warmUp, func() { unready.Store(false) })
	probe := func(broken *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if broken.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}
	set := func(state *atomic.Bool, value bool) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { state.Store(value) }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", probe(&unready))
	mux.HandleFunc("GET /livez", probe(&unhealthy))
	mux.HandleFunc("POST /unready", set(&unready, true))
	mux.HandleFunc("POST /ready", set(&unready, false))
	mux.HandleFunc("POST /unhealthy", set(&unhealthy, true))
	mux.HandleFunc("GET /self", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"args": os.Args[1:], "env": os.Environ(), "pid": os.Getpid()})
	})
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func reply(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		fmt.Fprintln(os.Stderr, "testpod:", err)
	}
}
