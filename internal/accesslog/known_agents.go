package accesslog

import "strings"

// A family is a line of the table: crawlers of one kind whose machines, where
// the operator names them, are in the same domains. Names are apart by spaces;
// "A=b=c" is A, which is also known by the words b and c.
type family struct {
	kind              Kind
	hosts             string // apart by spaces
	lastmod, indexNow bool
	names             string
}

// families is the table, as of 2026. Hosts are those that operators name for a check by DNS; operators that
// publish only address ranges have none. Google and Bing say that they read lastmod; the engines that accept
// IndexNow are named on indexnow.org. A word is listed only if no browser has it, also not one within an app.
func families() []family {
	const (
		google = "googlebot.com google.com googleusercontent.com"
		bing   = "search.msn.com"
		yandex = "yandex.ru yandex.net yandex.com"
		apple  = "applebot.apple.com"
	)
	return []family{
		{kind: Search, hosts: google, lastmod: true, names: "Googlebot"},
		{kind: Search, hosts: google, names: "Googlebot-Image Googlebot-Video Googlebot-News Googlebot-Mobile Storebot-Google Google-InspectionTool GoogleOther Google-Site-Verification"},
		{kind: Search, hosts: bing, lastmod: true, indexNow: true, names: "bingbot msnbot"},
		{kind: Search, hosts: bing, names: "BingPreview MicrosoftPreview"},
		{kind: Search, hosts: yandex, indexNow: true, names: "YandexBot=YandexMobileBot=YandexAccessibilityBot"},
		{kind: Search, hosts: yandex, names: "YandexImages YandexVideo YandexMedia YandexBlogs YandexNews YandexDirect YandexMetrika YandexRenderResourcesBot"},
		{kind: Search, hosts: "seznam.cz", indexNow: true, names: "SeznamBot"},
		{kind: Search, hosts: "naver.com", indexNow: true, names: "Yeti=NaverBot"},
		{kind: Search, indexNow: true, names: "YepBot"},
		{kind: Search, hosts: "baidu.com baidu.jp", names: "Baiduspider"},
		{kind: Search, hosts: "crawl.yahoo.net", names: "Slurp"},
		{kind: Search, hosts: apple, names: "Applebot"},
		{kind: Search, hosts: "petalsearch.com", names: "PetalBot=AspiegelBot"},
		{kind: Search, hosts: "sogou.com", names: "Sogou"},
		{kind: Search, hosts: "mail.ru", names: "Mail.RU_Bot"},
		{kind: Search, hosts: "mojeek.com", names: "MojeekBot"},
		{kind: Search, hosts: "qwant.com", names: "Qwantbot=Qwantify"},
		{kind: Search, hosts: "exabot.com", names: "Exabot"},
		{kind: Search, names: "DuckDuckBot=DuckDuckGo-Favicons-Bot 360Spider YisouSpider coccocbot Daumoa SeekportBot yacybot Gigabot wotbox Findxbot Blekkobot Sosospider EasouSpider"},

		{kind: AI, names: "GPTBot OAI-SearchBot ChatGPT-User"},
		{kind: AI, names: "ClaudeBot Claude-Web Claude-User Claude-SearchBot anthropic-ai"},
		{kind: AI, names: "PerplexityBot Perplexity-User meta-externalagent meta-externalfetcher FacebookBot Bytespider TikTokSpider"},
		{kind: AI, hosts: "crawl.amazonbot.amazon", names: "Amazonbot"},
		{kind: AI, hosts: apple, names: "Applebot-Extended"},
		{kind: AI, hosts: google, names: "Google-CloudVertexBot"},
		{kind: AI, hosts: "crawl.commoncrawl.org", names: "CCBot"},
		{kind: AI, names: "cohere-ai cohere-training-data-crawler MistralAI-User DeepSeekBot AI2Bot YouBot PhindBot DuckAssistBot Diffbot omgili=omgilibot Timpibot ImagesiftBot PanguBot img2dataset Crawl4AI FirecrawlAgent ICC-Crawler VelenPublicWebCrawler"},

		{kind: SEO, hosts: "ahrefs.com ahrefs.net", names: "AhrefsBot AhrefsSiteAudit"},
		{kind: SEO, hosts: "semrush.com", names: "SemrushBot=SiteAuditBot=SplitSignalBot"},
		{kind: SEO, names: "MJ12bot DotBot rogerbot Ezooms BLEXBot DataForSeoBot SEOkicks serpstatbot Barkrowler SISTRIX=SistrixCrawler spbot SearchmetricsBot MegaIndex.ru ZoominfoBot AwarioBot=AwarioSmartBot oBot XoviBot LinkpadBot linkdexbot SEOENGBot WebmeupCrawler=webmeup-crawler.com Domainappender netEstate panscient.com"},

		{kind: Feed, names: "FeedFetcher-Google Feedly=FeedlyBot Feedbin FeedBurner Inoreader=inoreader.com NewsBlur theoldreader.com Tiny-Tiny-RSS=tt-rss.org UniversalFeedParser feedparser"},
		{kind: Feed, names: "Miniflux FreshRSS CommaFeed NetNewsWire Newsboat Newsbeuter Liferea Akregator Bloglovin Blogtrottr SimplePie MagpieRSS Feedspot FeedDemon Netvibes NewsGatorOnline AolReader Superfeedr gofeed Feedzirra Windows-RSS-Platform PodcastAddict Overcast gPodder FeedWordPress YahooFeedSeeker Apple-PubSub Moreover=Moreoverbot FeedValidator rss2email BazQux"},

		{kind: Preview, names: "facebookexternalhit=facebookcatalog=Facebot"},
		{kind: Preview, hosts: "twttr.com", names: "Twitterbot"},
		{kind: Preview, hosts: "linkedin.com", names: "LinkedInBot"},
		{kind: Preview, hosts: "pinterest.com", names: "Pinterestbot"},
		{kind: Preview, names: "Slackbot=Slack-ImgProxy Discordbot TelegramBot WhatsApp SkypeUriPreview redditbot Iframely Embedly Mastodon Cardyb vkShare FlipboardProxy PaperLiBot TweetmemeBot bitlybot ShowyouBot"},
		{kind: Preview, hosts: google, names: "AdsBot-Google Mediapartners-Google APIs-Google Google-Read-Aloud GoogleImageProxy"},
		{kind: Preview, hosts: bing, names: "adidxbot"},
		{kind: Preview, names: "proximic GrapeshotCrawler=grapeshot"},

		{kind: Archive, hosts: "archive.org", names: "archive.org_bot special_archiver"},
		{kind: Archive, names: "ia_archiver heritrix Archive-It bl.uk_lddc_bot bnf.fr_bot ArchiveTeam ArchiveBot arquivo-web-crawler HTTrack"},

		{kind: Monitor, names: "UptimeRobot Pingdom=Pingdom.com=Pingdom.com_bot_version_1.4_=PingdomTMS=PingdomBot StatusCake Site24x7 Uptime-Kuma HetrixTools DatadogSynthetics NewRelicPinger GTmetrix Zabbix check_http ELB-HealthChecker GoogleHC kube-probe Blackbox-Exporter updown.io Freshping monit W3C-checklink W3C_Validator=Validator.nu"},

		{kind: OtherBot, names: "parley CloudFlare-AlwaysOnline Genieo TurnitinBot magpie-crawler Nutch Scrapy colly BUbiNG ltx71 IonCrawl CensysInspect InternetMeasurement Expanse NetcraftSurveyAgent l9explore zgrab masscan"},

		{kind: Program, names: "curl Wget python-requests Python-urllib python-httpx aiohttp Go-http-client okhttp Java Apache-HttpClient libwww-perl Ruby node-fetch axios PHP GuzzleHttp HTTPie WinHttp Dalvik Lynx WordPress PostmanRuntime git"},
		{kind: Program, names: "HeadlessChrome PhantomJS AppEngine-Google"},
	}
}

// table returns the known agents by word, in lower case.
func table() map[string]*Agent {
	by := map[string]*Agent{}
	for _, f := range families() {
		for _, names := range strings.Fields(f.names) {
			words := strings.Split(names, "=")
			agent := &Agent{ID: -1, Name: words[0], Kind: f.kind, Hosts: strings.Fields(f.hosts), Lastmod: f.lastmod, IndexNow: f.indexNow}
			for _, w := range words {
				by[strings.ToLower(w)] = agent
			}
		}
	}
	return by
}
