"""When to abstain.

A random forest reads digits, and people read what it is unsure about. Rows whose set has one label are answered;
the others are passed on. A stricter level passes on more rows and leaves fewer errors. The p-values of all labels
give the sets of every level at once.
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from thermoset.integrations.sklearn import SetClassifier
from thermoset.plots import COLOURS, figure

X, y = load_digits(return_X_y=True)
X_train, X_new, y_train, y_new = train_test_split(X, y, train_size=800, random_state=0)
forest = RandomForestClassifier(50, random_state=0)
model = SetClassifier(forest, "lac", alpha=0.1, cv=3, held_out=0.5).fit(X_train, y_train)

p_values = model.predictor_.predict_p(model.logits(X_new))
right = model.predict(X_new) == y_new
answered, errors = [], []
for alpha in (0.01, 0.02, 0.03, 0.04, 0.05):
    alone = (p_values > alpha).sum(axis=1) == 1
    answered.append(alone.mean())
    errors.append((~right[alone]).mean())
    print(f"alpha {alpha}: {alone.mean():.0%} of the rows answered, {errors[-1]:.1%} of these wrong")
print(f"without sets: 100% answered, {(~right).mean():.1%} wrong")

made, (ax,) = figure(1, panel=(7.5, 3.8))
ax.plot(answered, errors, marker="o", color=COLOURS[0])
ax.set(xlabel="share of the rows that the forest answers", ylabel="errors among them")
made.savefig("abstention.png")
