"""English names of languages, for sentences that people read. Pages have the names of their own language."""

_NAMES = (
    "af Afrikaans,am Amharic,ar Arabic,az Azerbaijani,be Belarusian,bg Bulgarian,bn Bengali,bs Bosnian,ca Catalan,"
    "cs Czech,cy Welsh,da Danish,de German,el Greek,en English,eo Esperanto,es Spanish,et Estonian,eu Basque,"
    "fa Persian,fi Finnish,fil Filipino,fr French,ga Irish,gl Galician,gu Gujarati,ha Hausa,he Hebrew,hi Hindi,"
    "hr Croatian,hu Hungarian,hy Armenian,id Indonesian,ig Igbo,is Icelandic,it Italian,ja Japanese,jv Javanese,"
    "ka Georgian,kk Kazakh,km Khmer,kn Kannada,ko Korean,ku Kurdish,ky Kyrgyz,la Latin,lo Lao,lt Lithuanian,lv Latvian,"
    "mg Malagasy,mk Macedonian,ml Malayalam,mn Mongolian,mr Marathi,ms Malay,mt Maltese,my Burmese,nb Norwegian,"
    "ne Nepali,nl Dutch,nn Norwegian Nynorsk,no Norwegian,om Oromo,pa Punjabi,pl Polish,ps Pashto,pt Portuguese,"
    "ro Romanian,ru Russian,rw Kinyarwanda,sd Sindhi,si Sinhala,sk Slovak,sl Slovenian,sn Shona,so Somali,sq Albanian,"
    "sr Serbian,st Sotho,su Sundanese,sv Swedish,sw Swahili,ta Tamil,te Telugu,tg Tajik,th Thai,ti Tigrinya,tk Turkmen,"
    "tl Tagalog,tr Turkish,tt Tatar,ug Uyghur,uk Ukrainian,ur Urdu,uz Uzbek,vi Vietnamese,wo Wolof,xh Xhosa,yi Yiddish,"
    "yo Yoruba,yue Cantonese,zh Chinese,zu Zulu"
)
_BY_CODE: dict[str, str] = dict(entry.split(" ", 1) for entry in _NAMES.split(","))


def language_name(code: str) -> str:
    """`Korean`, `Portuguese (BR)`; the code itself where there is no name."""
    language, _, more = code.partition("-")
    name = _BY_CODE.get(language)
    if name is None:
        return code
    return f"{name} ({more})" if more else name
