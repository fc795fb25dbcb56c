package seat

import (
	"context"
	"time"
)

// parkLimit bounds how long a process that ends waits for its writes, and for the answer to the last request.
const parkLimit = 5 * time.Second

// park ends all writes and says on the Lease that there are none any more. Where that fails the next process waits a
// little longer.
func (s *Seat) park(ctx context.Context) {
	s.end()
	if !s.hasBegun() || !s.idle() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, parkLimit)
	defer cancel()
	err := s.read(ctx)
	if err == nil && !s.mine() {
		return // It was lost at the last moment.
	}
	if err == nil {
		err = s.write(ctx, parkedFor)
	}
	if err != nil {
		s.Logger.Info("Ending the registration of this management cluster failed: the next process waits until it expires", "cause", err.Error())
	}
}

// idle waits until no write is under way, and reports whether that is so in time.
func (s *Seat) idle() bool {
	done := make(chan struct{})
	go func() {
		s.writing.Lock()
		defer s.writing.Unlock()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-s.Clock.After(parkLimit):
		return false
	}
}

// end has nothing written from now on.
func (s *Seat) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (s *Seat) isEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}
