package content

import (
	"cmp"
	"slices"
	"strings"
)

// The kinds of subjects, each with its file of words.
const (
	kindProduct  = "product"  // is bought and used
	kindFood     = "food"     // is eaten or drunk
	kindTech     = "tech"     // software, and how it is built and run
	kindPractice = "practice" // is done and learnt
	kindTask     = "task"     // begins with "how to"
	kindTopic    = "topic"    // any other
)

// kindWords identify the kind of a subject by the last word of a noun, kindTech by any
// word. Phrases with hyphens stand for several words at the end.
var kindWords = map[string][]string{
	kindTech: strings.Fields(`software app apps api apis database databases server servers serverless hosting cloud
		deploy deploys deployment deployments pipeline pipelines kubernetes docker linux python javascript typescript
		golang rust java c++ c# sql nosql code codebase refactoring devops framework frameworks plugin plugins
		website websites saas crm erp cms backend frontend automation backup backups encryption firewall git
		microservice microservices caching observability monitoring logging webhook webhooks redis postgres
		postgresql mysql ai ml llm llms chatbot chatbots machine-learning deep-learning data-science algorithm
		algorithms programming debugging rollback rollbacks latency downtime zero-downtime blue-green`),
	kindFood: strings.Fields(`coffee tea bread sourdough wine beer cheese chocolate pasta rice honey milk juice cake
		cakes sauce soup salad pizza crème espresso cappuccino latte matcha snack snacks spice spices olives butter
		yogurt yoghurt jam cookie cookies biscuit biscuits noodles bean beans granola muesli nuts almonds vinegar
		mustard pepper salt tofu salmon ham bacon kombucha lemonade gin whisky whiskey rum olive-oil coconut-oil
		sunflower-oil sesame-oil rapeseed-oil argan-oil maple-syrup peanut-butter ice-cream hot-sauce`),
	kindPractice: strings.Fields(`yoga meditation photography pilates sport sports football soccer tennis golf chess
		homework makeup skin-care hair-care time-management`),
	kindProduct: strings.Fields(`desk chair table lamp sofa bed mattress pillow blanket shelf cabinet wardrobe stool
		bench rug curtain mirror shoe boot sneaker sandal jacket coat shirt dress jeans trousers sock hat glove scarf
		belt helmet sunglasses watch ring necklace bag backpack suitcase wallet purse tent umbrella bottle mug cup
		pan pot knife kettle toaster blender mixer grinder oven stove fridge freezer dishwasher microwave machine
		vacuum dryer heater fan humidifier purifier fryer laptop tablet phone smartphone headphone headphones earbuds
		speaker microphone camera lens monitor keyboard mouse printer router charger cable adapter drone television
		tv projector console bike bicycle e-bike scooter skateboard stroller car tyre tire drill saw hammer
		screwdriver ladder mower hose grill toy puzzle doll guitar piano violin drum notebook pen pencil planner
		candle vase frame razor toothbrush shampoo soap perfume sunscreen cream lotion case cover sheet dumbbell
		treadmill mat racket ball glasses battery bulb tool toolbox basket bin towel`),
}

// kindOf guesses the kind of a subject from its words, or from its features if that
// fails.
func kindOf(subject string, features []string) string {
	words := strings.Fields(strings.ToLower(strings.ReplaceAll(subject, "_", " ")))
	switch {
	case len(words) > 2 && words[0] == "how" && words[1] == "to":
		return kindTask
	case len(words) == 0 || isQuestion(words):
		return kindTopic
	}
	head := headOf(words)
	switch named := strings.Join(words, " "); {
	case slices.ContainsFunc(words, func(w string) bool { return isOf(kindTech, w) }) || endsIn(kindTech, named):
		return kindTech
	case isOf(kindFood, head) || endsIn(kindFood, named):
		return kindFood
	case isOf(kindProduct, head):
		return kindProduct
	case isOf(kindPractice, head) || endsIn(kindPractice, named) || len(head) > 5 && strings.HasSuffix(head, "ing"):
		return kindPractice
	}
	return cmp.Or(kindOfFeatures(features), kindTopic)
}

// isOf reports whether a word, or its singular, identifies a kind.
func isOf(kind, word string) bool {
	return slices.ContainsFunc([]string{word, strings.TrimSuffix(word, "s"), strings.TrimSuffix(word, "es")},
		func(w string) bool { return slices.Contains(kindWords[kind], w) })
}

// endsIn reports whether a subject ends in a phrase that identifies a kind.
func endsIn(kind, subject string) bool {
	return slices.ContainsFunc(kindWords[kind], func(phrase string) bool {
		return strings.Contains(phrase, "-") && strings.HasSuffix(" "+subject, " "+strings.ReplaceAll(phrase, "-", " "))
	})
}
