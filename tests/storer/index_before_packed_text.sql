BEGIN TRANSACTION;
CREATE TABLE fetches (
	id INTEGER NOT NULL,
	"key" BLOB NOT NULL,
	fetch_id BIGINT NOT NULL,
	at DOUBLE NOT NULL,
	host TEXT NOT NULL,
	delay DOUBLE NOT NULL,
	kind TEXT NOT NULL,
	url TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	status INTEGER NOT NULL,
	outcome TEXT NOT NULL,
	latency_ms BIGINT NOT NULL,
	connect_ms BIGINT NOT NULL,
	first_byte_ms BIGINT NOT NULL,
	body_ms BIGINT NOT NULL,
	received BIGINT NOT NULL,
	protocol TEXT NOT NULL,
	proxy_id TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE ("key", fetch_id, at)
);
INSERT INTO "fetches" VALUES(1,X'BE1EFAF48C29AD7915B846D6A2FE22CC',1,1700000000.0,'site.test',1.0,'page','http://site.test/page',1,200,'fetched',0,-1,0,0,0,'','');
CREATE TABLE headrace_index (
	name TEXT NOT NULL,
	value INTEGER NOT NULL,
	PRIMARY KEY (name)
);
INSERT INTO "headrace_index" VALUES('format',1);
CREATE TABLE pages (
	id INTEGER NOT NULL,
	"key" BLOB NOT NULL,
	version BIGINT NOT NULL,
	at DOUBLE NOT NULL,
	kind TEXT NOT NULL,
	url TEXT NOT NULL,
	status INTEGER NOT NULL,
	page_type TEXT NOT NULL,
	depth INTEGER NOT NULL,
	referrer TEXT NOT NULL,
	latency_ms BIGINT NOT NULL,
	attempt INTEGER NOT NULL,
	proxy_id TEXT NOT NULL,
	run BIGINT NOT NULL,
	note TEXT NOT NULL,
	body_version BIGINT NOT NULL,
	body_at DOUBLE NOT NULL,
	body_url TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	size BIGINT NOT NULL,
	content_type TEXT NOT NULL,
	charset TEXT NOT NULL,
	validator_version BIGINT NOT NULL,
	validator_at DOUBLE NOT NULL,
	etag TEXT NOT NULL,
	last_modified TEXT NOT NULL,
	answer_headers TEXT NOT NULL,
	headers TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE ("key")
);
INSERT INTO "pages" VALUES(1,X'BE1EFAF48C29AD7915B846D6A2FE22CC',1,1700000001.25,'page','http://site.test/page',200,'page',2,'http://site.test/',12,1,'',0,'',1,1700000001.25,'http://site.test/page','4db7ef630005c462450ea587722b1a7cff53dfdcd35d7dd40bcf8e97e50826ee',14,'text/html','utf-8',1,1700000001.25,'"e1"','Tue, 14 Nov 2023 22:13:20 GMT','','[["content-type","text/html; charset=utf-8"],["server","x"]]');
CREATE TABLE parsed (
	"key" BLOB NOT NULL,
	version BIGINT NOT NULL,
	at DOUBLE NOT NULL,
	verdict TEXT NOT NULL,
	title TEXT NOT NULL,
	description TEXT NOT NULL,
	lang TEXT NOT NULL,
	encoding TEXT NOT NULL,
	canonical_url TEXT NOT NULL,
	text_sha256 TEXT NOT NULL,
	noindex BOOLEAN NOT NULL,
	nofollow BOOLEAN NOT NULL,
	outlink_count INTEGER NOT NULL,
	text TEXT NOT NULL,
	outlinks BLOB NOT NULL,
	items BLOB NOT NULL,
	PRIMARY KEY ("key")
);
INSERT INTO "parsed" VALUES(X'BE1EFAF48C29AD7915B846D6A2FE22CC',1,1700000002.0,'ok','Title 1','','','windows-1252','','',0,0,2,'hello',X'28B52FFD202BFD0000C85B22687474703A2F2F736974652E746573742F61222C62225D0100D09B4D',X'');
CREATE INDEX fetches_host_at ON fetches (host, at);
COMMIT;
