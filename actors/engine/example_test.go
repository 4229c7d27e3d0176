package engine_test

import (
	"context"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/engine"
)

// Messages to a counter. A question carries the channel for its answer.
type (
	increment    struct{ word string }
	countRequest struct {
		word  string
		reply chan<- int
	}
)

// counter is an actor that counts words. Only its Receive accesses the map, so it needs
// no lock.
type counter struct{ words map[string]int }

func (a *counter) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case increment:
		a.words[m.word]++
	case countRequest:
		m.reply <- a.words[m.word]
	}
}

func ExampleAsk() {
	ctx := context.Background()
	system := engine.NewSystem(engine.Options{})
	defer system.Shutdown(ctx)
	produce := func() engine.Actor { return &counter{words: map[string]int{}} }
	words := system.Spawn(engine.Other, "words", produce, engine.Supervision{})

	words.Tell(increment{"buy"})
	words.Tell(increment{"buy"})
	n, err := engine.Ask(ctx, words, func(reply chan<- int) any { return countRequest{"buy", reply} })
	fmt.Println(n, err)
	// Output: 2 <nil>
}
