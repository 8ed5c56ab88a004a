"""
Which languages are confused with each other?
=============================================

A classifier of texts finds the language of a few letters. In the tree of classes that
is learned, similar languages are close to each other. Most errors of the classifier are
between such languages. The texts are twelve sentences about everyday things, in twelve
languages.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import confusion_matrix

from sklstruct.plotting import TaxonomyDisplay
from sklstruct.taxonomy import CutSplit
from sklstruct.text import NgramVectorizer, TextClassifier

SENTENCES = {
    "English": """
My sister lives in a small house by the sea.
Tomorrow we will buy bread and milk at the market.
The train to the city leaves at eight in the morning.
I do not know where the keys of the car are.
The children like to play in the garden after school.
It rained the whole night and the street is wet.
Can you tell me how much this book costs?
The teacher reads a letter from an old friend.
In winter the days are short and cold.
She drinks a cup of coffee every morning.
Our neighbours have two dogs and a white cat.
Last year he worked in a big hospital.""",
    "German": """
Meine Schwester wohnt in einem kleinen Haus am Meer.
Morgen kaufen wir Brot und Milch auf dem Markt.
Der Zug in die Stadt fährt um acht Uhr morgens ab.
Ich weiß nicht, wo die Schlüssel des Autos sind.
Die Kinder spielen nach der Schule gern im Garten.
Es hat die ganze Nacht geregnet und die Straße ist nass.
Können Sie mir sagen, wie viel dieses Buch kostet?
Der Lehrer liest einen Brief von einem alten Freund.
Im Winter sind die Tage kurz und kalt.
Sie trinkt jeden Morgen eine Tasse Kaffee.
Unsere Nachbarn haben zwei Hunde und eine weiße Katze.
Letztes Jahr hat er in einem großen Krankenhaus gearbeitet.""",
    "Dutch": """
Mijn zus woont in een klein huis aan zee.
Morgen kopen we brood en melk op de markt.
De trein naar de stad vertrekt om acht uur 's ochtends.
Ik weet niet waar de sleutels van de auto zijn.
De kinderen spelen na school graag in de tuin.
Het heeft de hele nacht geregend en de straat is nat.
Kunt u mij zeggen hoeveel dit boek kost?
De leraar leest een brief van een oude vriend.
In de winter zijn de dagen kort en koud.
Ze drinkt elke ochtend een kopje koffie.
Onze buren hebben twee honden en een witte kat.
Vorig jaar werkte hij in een groot ziekenhuis.""",
    "Swedish": """
Min syster bor i ett litet hus vid havet.
I morgon köper vi bröd och mjölk på torget.
Tåget till staden går klockan åtta på morgonen.
Jag vet inte var nycklarna till bilen är.
Barnen tycker om att leka i trädgården efter skolan.
Det regnade hela natten och gatan är våt.
Kan du säga mig hur mycket den här boken kostar?
Läraren läser ett brev från en gammal vän.
På vintern är dagarna korta och kalla.
Hon dricker en kopp kaffe varje morgon.
Våra grannar har två hundar och en vit katt.
Förra året arbetade han på ett stort sjukhus.""",
    "Danish": """
Min søster bor i et lille hus ved havet.
I morgen køber vi brød og mælk på torvet.
Toget til byen kører klokken otte om morgenen.
Jeg ved ikke, hvor nøglerne til bilen er.
Børnene kan lide at lege i haven efter skole.
Det regnede hele natten, og gaden er våd.
Kan du sige mig, hvor meget denne bog koster?
Læreren læser et brev fra en gammel ven.
Om vinteren er dagene korte og kolde.
Hun drikker en kop kaffe hver morgen.
Vores naboer har to hunde og en hvid kat.
Sidste år arbejdede han på et stort sygehus.""",
    "Norwegian": """
Søsteren min bor i et lite hus ved sjøen.
I morgen kjøper vi brød og melk på torget.
Toget til byen går klokka åtte om morgenen.
Jeg vet ikke hvor nøklene til bilen er.
Barna liker å leke i hagen etter skolen.
Det regnet hele natta og gata er våt.
Kan du si meg hvor mye denne boka koster?
Læreren leser et brev fra en gammel venn.
Om vinteren er dagene korte og kalde.
Hun drikker en kopp kaffe hver morgen.
Naboene våre har to hunder og en hvit katt.
I fjor jobbet han på et stort sykehus.""",
    "Spanish": """
Mi hermana vive en una casa pequeña cerca del mar.
Mañana compraremos pan y leche en el mercado.
El tren a la ciudad sale a las ocho de la mañana.
No sé dónde están las llaves del coche.
A los niños les gusta jugar en el jardín después de la escuela.
Llovió toda la noche y la calle está mojada.
¿Puede decirme cuánto cuesta este libro?
El maestro lee una carta de un viejo amigo.
En invierno los días son cortos y fríos.
Ella bebe una taza de café cada mañana.
Nuestros vecinos tienen dos perros y un gato blanco.
El año pasado trabajó en un hospital grande.""",
    "Portuguese": """
A minha irmã mora numa casa pequena perto do mar.
Amanhã vamos comprar pão e leite no mercado.
O comboio para a cidade parte às oito da manhã.
Não sei onde estão as chaves do carro.
As crianças gostam de brincar no jardim depois da escola.
Choveu a noite toda e a rua está molhada.
Pode dizer-me quanto custa este livro?
O professor lê uma carta de um velho amigo.
No inverno os dias são curtos e frios.
Ela bebe uma chávena de café todas as manhãs.
Os nossos vizinhos têm dois cães e um gato branco.
No ano passado ele trabalhou num grande hospital.""",
    "Italian": """
Mia sorella abita in una piccola casa vicino al mare.
Domani compreremo pane e latte al mercato.
Il treno per la città parte alle otto di mattina.
Non so dove sono le chiavi della macchina.
Ai bambini piace giocare in giardino dopo la scuola.
Ha piovuto tutta la notte e la strada è bagnata.
Può dirmi quanto costa questo libro?
Il maestro legge una lettera di un vecchio amico.
In inverno le giornate sono corte e fredde.
Lei beve una tazza di caffè ogni mattina.
I nostri vicini hanno due cani e un gatto bianco.
L'anno scorso ha lavorato in un grande ospedale.""",
    "French": """
Ma sœur habite dans une petite maison au bord de la mer.
Demain nous achèterons du pain et du lait au marché.
Le train pour la ville part à huit heures du matin.
Je ne sais pas où sont les clés de la voiture.
Les enfants aiment jouer dans le jardin après l'école.
Il a plu toute la nuit et la rue est mouillée.
Pouvez-vous me dire combien coûte ce livre ?
Le maître lit une lettre d'un vieil ami.
En hiver les jours sont courts et froids.
Elle boit une tasse de café chaque matin.
Nos voisins ont deux chiens et un chat blanc.
L'année dernière il a travaillé dans un grand hôpital.""",
    "Czech": """
Moje sestra bydlí v malém domě u moře.
Zítra koupíme na trhu chléb a mléko.
Vlak do města odjíždí v osm hodin ráno.
Nevím, kde jsou klíče od auta.
Děti si po škole rády hrají na zahradě.
Celou noc pršelo a ulice je mokrá.
Můžete mi říct, kolik stojí tato kniha?
Učitel čte dopis od starého přítele.
V zimě jsou dny krátké a studené.
Každé ráno pije šálek kávy.
Naši sousedé mají dva psy a bílou kočku.
Loni pracoval ve velké nemocnici.""",
    "Slovak": """
Moja sestra býva v malom dome pri mori.
Zajtra kúpime na trhu chlieb a mlieko.
Vlak do mesta odchádza o ôsmej hodine ráno.
Neviem, kde sú kľúče od auta.
Deti sa po škole rady hrajú v záhrade.
Celú noc pršalo a ulica je mokrá.
Môžete mi povedať, koľko stojí táto kniha?
Učiteľ číta list od starého priateľa.
V zime sú dni krátke a studené.
Každé ráno pije šálku kávy.
Naši susedia majú dvoch psov a bielu mačku.
Minulý rok pracoval vo veľkej nemocnici.""",
}

# %%
# A text is a piece of 20 letters. The classifier is trained on the pieces of the first
# eight sentences, and tested on the pieces of the other four sentences.


def pieces(sentences, step):
    return [s[i : i + 20] for s in sentences for i in range(0, len(s) - 19, step)]


train, y_train, test, y_test = [], [], [], []
for language, text in SENTENCES.items():
    sentences = text.strip().split("\n")
    for texts, labels, part in (
        (train, y_train, pieces(sentences[:8], 3)),
        (test, y_test, pieces(sentences[8:], 1)),
    ):
        texts += part
        labels += [language] * len(part)

letters = NgramVectorizer(analyzer="char_wb", ngram_range=(1, 3), sublinear_tf=True)
tree = CutSplit().build(letters.fit_transform(train), y_train)
model = TextClassifier(letters, taxonomy=tree, random_state=0)
model.fit(train, y_train)
print(f"{len(train)} pieces learned, {len(test)} asked for")
print(f"right: {model.score(test, y_test):.3f}")
for text in ("una casa blanca", "jeg har en hund", "stará mama je doma"):
    best = model.predict_top_k([text], 3, return_log_proba=True)
    print(text, *(f"{a}: {np.exp(b):.2f}" for a, b in zip(best[0][0], best[1][0])))

# %%
# `explain` lists the n-grams that change the probability most if they are removed:

for ngram, change in model.explain("jeg har en hund", k=3):
    print(f"{ngram!r}: {change:+.2f}")

# %%
# The left picture shows the tree. The right picture shows the confusions, with the
# languages in the order of the leaves of the tree. Darker fields are more frequent
# errors. The diagonal is left out.

order = tree.classes[tree.class_sets.order]
table = confusion_matrix(y_test, model.predict(test), labels=order, normalize="true")
np.fill_diagonal(table, np.nan)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), width_ratios=[1, 1.1])
TaxonomyDisplay(tree).plot(ax=left)
image = right.imshow(table, cmap="Blues")
right.set_xticks(range(order.size), order, rotation=90)
right.set_yticks(range(order.size), order)
right.set(xlabel="predicted", ylabel="true", title="Confusions along the tree")
figure.colorbar(image, ax=right, label="share of the pieces of a language")
figure.tight_layout()

# %%
# Most errors are between languages of the same branch: the Scandinavian languages are
# confused with each other, Czech with Slovak, and Spanish with Italian.

place = {label: i for i, label in enumerate(order)}
wrong = [(place[a], place[b]) for a, b in zip(y_test, model.predict(test)) if a != b]
near = np.mean([abs(i - j) <= 2 for i, j in wrong])
print(f"{len(wrong)} mistakes, {near:.2f} of them at most two places away")
plt.show()
